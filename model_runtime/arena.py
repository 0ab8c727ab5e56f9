"""Arenas: preallocated, contiguous keys and values of one token sequence each, and the pool that lends them."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import torch

from model_runtime.config import ModelConfig
from model_runtime.ids import Ids, common_prefix

WORTH_COPYING = 16  # tokens that a copy must save


class Arena:
    """Keys and values of one token sequence.

    Invariant: `k[:, :, i]` and `v[:, :, i]` hold what the model computed for `ids[i]` after `ids[:i]`, for every
    i < length; what lies beyond is junk. `logits`, where not None, are those that follow `ids[:logits_at]`.
    """

    def __init__(self, config: ModelConfig, capacity: int) -> None:
        """Allocate [layers, kv_heads, capacity, head_dim] twice, fp32; nothing is allocated after this."""
        shape = (config.layers, config.kv_heads, capacity, config.head_dim)
        self.k = torch.zeros(shape)
        self.v = torch.zeros(shape)
        self.capacity = capacity
        self.length = 0
        self.logits: torch.Tensor | None = None
        self.logits_at = -1
        self._ids = np.zeros(capacity, dtype=np.int32)

    @property
    def ids(self) -> Ids:
        """The tokens held, a view that the next append or truncation invalidates."""
        return self._ids[: self.length]

    def common(self, ids: Ids) -> int:
        """Length of the longest common prefix of `ids` and the tokens held."""
        return common_prefix(self.ids, ids)

    def reusable(self, ids: Ids) -> int:
        """Tokens of a prompt that need no pass: without kept logits the last one needs it again."""
        n = self.common(ids)
        return n if n < len(ids) or self.logits_at == n else n - 1

    def truncate(self, length: int) -> None:
        """Forget the tokens from `length` on; kept logits survive only if what they follow does."""
        assert 0 <= length <= self.length
        self.length = length
        if self.logits_at > length:
            self.keep_logits(None)

    def append(self, ids: Ids) -> None:
        """Take in tokens whose keys and values the decoder has just written at `length`."""
        end = self.length + len(ids)
        assert end <= self.capacity
        self._ids[self.length : end] = ids
        self.length = end

    def keep_logits(self, logits: torch.Tensor | None) -> None:
        """Remember the logits that follow the tokens held now, so that the same prompt costs no pass."""
        self.logits, self.logits_at = logits, self.length if logits is not None else -1

    def copy_prefix(self, other: Arena, length: int) -> None:
        """Become the first `length` tokens of `other`: a copy in memory instead of a forward pass."""
        self.length = 0
        self.keep_logits(None)
        self.k[:, :, :length].copy_(other.k[:, :, :length])
        self.v[:, :, :length].copy_(other.v[:, :, :length])
        self.append(other.ids[:length])


class ArenaPool:
    """A handful of arenas, one for each document that was completed in lately.

    Owners are document names. Arenas are allocated when first needed and never freed; the least recently used
    one changes hands when all are taken.
    """

    def __init__(self, config: ModelConfig, capacity: int, size: int) -> None:
        """Lend at most `size` arenas of `capacity` tokens."""
        self.capacity = capacity
        self._config, self._size = config, size
        self._owned: OrderedDict[str, Arena] = OrderedDict()  # least recently used first

    def take(self, owner: str, ids: Ids) -> Arena:
        """Return the owner's arena, filled with the longest prefix of `ids` that any arena holds."""
        holder = self._holder(owner)
        arena = Arena(self._config, self.capacity) if holder is None else self._owned.pop(holder)
        if source := self._source(ids, arena):
            arena.copy_prefix(*source)
        self._owned[owner] = arena
        return arena

    def reusable(self, owner: str, ids: Ids) -> int:
        """Tokens of a prompt that need no pass once its owner takes an arena; changes nothing."""
        holder = self._holder(owner)
        arena = None if holder is None else self._owned[holder]
        if source := self._source(ids, arena):
            return min(source[1], len(ids) - 1)
        return arena.reusable(ids) if arena else 0

    def release(self, owner: str) -> None:
        """Make the owner's arena the next to change hands; its tokens stay usable until then."""
        if owner in self._owned:
            self._owned.move_to_end(owner, last=False)

    def _holder(self, owner: str) -> str | None:
        """Who holds the arena that the owner gets: itself, nobody (it is a new one), the least recent user."""
        if owner in self._owned:
            return owner
        return None if len(self._owned) < self._size else next(iter(self._owned))

    def _source(self, ids: Ids, arena: Arena | None) -> tuple[Arena, int] | None:
        """Another arena that holds so much more of `ids` that copying pays, and how much; None if there is none."""
        held = arena.common(ids) if arena else 0
        others = [(other, other.common(ids)) for other in self._owned.values() if other is not arena]
        best = max(others, key=lambda pair: pair[1], default=None)
        return best if best and best[1] >= held + WORTH_COPYING else None
