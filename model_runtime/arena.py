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
        arena = self._owned.pop(owner, None) or self._vacant()
        best = max(self._owned.values(), key=lambda a: a.common(ids), default=arena)
        if (shared := best.common(ids)) >= arena.common(ids) + WORTH_COPYING:
            arena.copy_prefix(best, shared)
        self._owned[owner] = arena
        return arena

    def common(self, ids: Ids) -> int:
        """Length of the prefix of `ids` that `take` would find computed; changes nothing."""
        return max((arena.common(ids) for arena in self._owned.values()), default=0)

    def release(self, owner: str) -> None:
        """Make the owner's arena the next to change hands; its tokens stay usable until then."""
        if owner in self._owned:
            self._owned.move_to_end(owner, last=False)

    def _vacant(self) -> Arena:
        if len(self._owned) < self._size:
            return Arena(self._config, self.capacity)
        return self._owned.popitem(last=False)[1]
