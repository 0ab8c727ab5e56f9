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
        arena = self._destined(owner) or Arena(self._config, self.capacity)
        best = self._best(ids, arena)
        if best is not None:
            arena.copy_prefix(best, best.common(ids))
        self._owned = OrderedDict((name, held) for name, held in self._owned.items() if held is not arena)
        self._owned[owner] = arena
        return arena

    def reusable(self, owner: str, ids: Ids) -> int:
        """Tokens of a prompt that need no pass once its owner takes an arena; changes nothing."""
        arena = self._destined(owner)
        best = self._best(ids, arena)
        if best is not None:
            return min(best.common(ids), len(ids) - 1)
        return arena.reusable(ids) if arena else 0

    def release(self, owner: str) -> None:
        """Make the owner's arena the next to change hands; its tokens stay usable until then."""
        if owner in self._owned:
            self._owned.move_to_end(owner, last=False)

    def _destined(self, owner: str) -> Arena | None:
        """The arena that the owner gets: its own, a new one (None), or the least recently used."""
        if owner in self._owned:
            return self._owned[owner]
        return None if len(self._owned) < self._size else next(iter(self._owned.values()))

    def _best(self, ids: Ids, arena: Arena | None) -> Arena | None:
        """The other arena that holds so much more of `ids` that copying pays; None if there is none."""
        others = [other for other in self._owned.values() if other is not arena]
        best = max(others, key=lambda other: other.common(ids), default=None)
        held = arena.common(ids) if arena else 0
        return best if best is not None and best.common(ids) >= held + WORTH_COPYING else None
