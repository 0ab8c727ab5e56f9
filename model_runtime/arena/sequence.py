"""One row of token ids whose keys and values are computed, and what a prompt can reuse of it. No tensors."""

from __future__ import annotations

import numpy as np

from model_runtime.ids import Ids, common_prefix


class TokenSequence:
    """Tokens computed so far, in order, at most `capacity` of them; nothing is allocated after the start.

    If `logits_at` is not -1, the logits that follow `ids[:logits_at]` are known without a pass. `wasted` counts the
    tokens that were computed ahead of need and dropped before they were needed. The first `exact` tokens are as the
    model computes them; later ones came from a lossy store, were composed, or were computed after such tokens. Those
    from `composed` on were put together from other sequences, or computed after such tokens, and are never stored.
    """

    def __init__(self, capacity: int) -> None:
        """Start empty."""
        self.capacity = capacity
        self.length = 0
        self.logits_at = -1
        self.wasted = 0
        self.exact = capacity
        self.composed = capacity
        self._ids = np.zeros(capacity, dtype=np.int32)
        self._unneeded = np.zeros(capacity, dtype=np.bool_)

    @property
    def ids(self) -> Ids:
        """The tokens held, as a view that the next append or truncation invalidates."""
        return self._ids[: self.length]

    def common(self, ids: Ids) -> int:
        """Return the length of the longest common prefix of `ids` and the tokens held."""
        return common_prefix(self.ids, ids)

    def reusable(self, ids: Ids) -> int:
        """Count the tokens of a prompt that need no pass; without known logits the last one needs one again."""
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
        if self.composed >= length:
            self.composed = self.capacity

    def mark_composed(self, start: int) -> None:
        """Mark the tokens from `start` on as composed: an approximation."""
        self.composed, self.exact = min(self.composed, start), min(self.exact, start)

    def mark_recomputed(self, end: int) -> None:
        """Mark the tokens up to `end`, and all of them if that is the last, as no longer composed."""
        if self.exact == self.composed:
            self.exact = end if end < self.length else self.capacity
        self.composed = end if end < self.length else self.capacity

    def approximate(self, length: int) -> int:
        """Count those of the first `length` tokens that are not exact."""
        return max(0, length - self.exact)

    def append(self, ids: Ids) -> None:
        """Append tokens whose keys and values have just been computed."""
        end = self.length + len(ids)
        assert end <= self.capacity
        self._ids[self.length : end] = ids
        self.length = end

    def mark_unneeded(self, start: int) -> None:
        """Mark the tokens from `start` on as computed ahead of need."""
        self._unneeded[start : self.length] = True

    def ahead(self, length: int) -> int:
        """Count those of the first `length` tokens that were computed ahead of need."""
        return int(self._unneeded[:length].sum())

    def mark_needed(self, length: int) -> None:
        """Mark the first `length` tokens as needed by an answer."""
        self._unneeded[:length] = False

    def change_owner(self) -> None:
        """Begin to serve another frame, with the tokens that it shares with the last one."""

    def copy_prefix(self, other: TokenSequence, length: int) -> None:
        """Become the first `length` tokens of `other`: a copy instead of a forward pass."""
        self.truncate(0)
        self.append(other.ids[:length])
        if other.exact < length:
            self.exact = other.exact
        if other.composed < length:
            self.composed = other.composed
        other.mark_needed(length)
