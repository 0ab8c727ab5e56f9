"""One row of token ids whose keys and values are computed: what a prompt can reuse of it. No tensors."""

from __future__ import annotations

import numpy as np

from model_runtime.ids import Ids, common_prefix


class TokenSequence:
    """Tokens computed so far, in order, at most `capacity` of them; nothing is allocated after the start.

    `logits_at`, where not -1, says that what follows `ids[:logits_at]` is known without a pass. `wasted` counts the
    tokens that were computed ahead of need and given up before anyone needed them. The first `exact` tokens are as
    the model computes them; those behind came from a store that loses something, or were computed behind such.
    """

    def __init__(self, capacity: int) -> None:
        """Hold nothing yet."""
        self.capacity = capacity
        self.length = 0
        self.logits_at = -1
        self.wasted = 0
        self.exact = capacity
        self._ids = np.zeros(capacity, dtype=np.int32)
        self._unneeded = np.zeros(capacity, dtype=np.bool_)

    @property
    def ids(self) -> Ids:
        """The tokens held, a view that the next append or truncation invalidates."""
        return self._ids[: self.length]

    def common(self, ids: Ids) -> int:
        """Length of the longest common prefix of `ids` and the tokens held."""
        return common_prefix(self.ids, ids)

    def reusable(self, ids: Ids) -> int:
        """Tokens of a prompt that need no pass: without known logits the last one needs it again."""
        n = self.common(ids)
        return n if n < len(ids) or self.logits_at == n else n - 1

    def truncate(self, length: int) -> None:
        """Forget the tokens from `length` on; known logits survive only if what they follow does."""
        assert 0 <= length <= self.length
        self.wasted += int(self._unneeded[length : self.length].sum())
        self._unneeded[length : self.length] = False
        self.length = length
        if self.logits_at > length:
            self.logits_at = -1
        if self.exact >= length:
            self.exact = self.capacity

    def approximate(self, length: int) -> int:
        """How many of the first `length` tokens are not exact."""
        return max(0, length - self.exact)

    def append(self, ids: Ids) -> None:
        """Take in tokens whose keys and values have just been computed."""
        end = self.length + len(ids)
        assert end <= self.capacity
        self._ids[self.length : end] = ids
        self.length = end

    def mark_unneeded(self, start: int) -> None:
        """Say that the tokens from `start` on were computed ahead of need."""
        self._unneeded[start : self.length] = True

    def mark_needed(self, length: int) -> None:
        """Say that an answer needed the first `length` tokens."""
        self._unneeded[:length] = False

    def copy_prefix(self, other: TokenSequence, length: int) -> None:
        """Become the first `length` tokens of `other`: a copy instead of a forward pass."""
        self.truncate(0)
        self.append(other.ids[:length])
        if other.exact < length:
            self.exact = other.exact
        other.mark_needed(length)
