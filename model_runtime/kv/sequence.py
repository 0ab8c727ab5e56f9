"""One row of token ids whose keys and values are computed, and what a prompt can reuse of it. No tensors."""

from __future__ import annotations

import numpy as np

from model_runtime.ids import Ids, common_prefix
from model_runtime.isolated import NONE_ISOLATED, IsolatedExcerpts


class TokenSequence:
    """Tokens computed so far, in order, at most `capacity` of them; nothing is allocated after the start.

    If `logits_at` is not -1, the logits that follow `ids[:logits_at]` are known without a pass. `wasted` counts the
    tokens that were computed ahead of need and dropped before they were needed. The first `exact` tokens are as the
    model computes them; later ones came from a lossy store, were composed, or were computed after such tokens. Those
    from `composed` on were put together from other sequences, or computed after such tokens, and are never stored.

    Before the window of these tokens lie `room` rows, a multiple of 64, for `excerpts`: one after the other, the last
    one up to the window, so that token i is always at row `room + i`.
    """

    def __init__(self, capacity: int, room: int = 0) -> None:
        """Start empty."""
        self.capacity, self.room = capacity, room
        self.excerpts = NONE_ISOLATED
        self._most_exact = capacity
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

    def common(self, ids: Ids, excerpts: IsolatedExcerpts | None = None) -> int:
        """Return the length of the longest common prefix of `ids` and the tokens held.

        With other `excerpts` than those that are here, tokens that see either are not held.
        """
        length = common_prefix(self.ids, ids)
        if excerpts is None or excerpts is self.excerpts:
            return length
        return self.excerpts.common(excerpts, length)

    def reusable(self, ids: Ids, excerpts: IsolatedExcerpts | None = None) -> int:
        """Count the tokens of a prompt that need no pass; without known logits the last one needs one again."""
        n = self.common(ids, excerpts)
        return n if n < len(ids) or self.logits_at == n else n - 1

    def begins(self, places: Ids) -> Ids | int:
        """Return the first rows that the tokens at these places of the window attend to, all up to their own."""
        excerpts, begin = self.excerpts, self.room - self.excerpts.tokens
        return np.where(places < excerpts.before_excerpts, self.room, begin) if excerpts.texts else begin

    def enter(self, excerpts: IsolatedExcerpts) -> bool:
        """Have these excerpts in the room, and forget the tokens that saw others; return whether they are others."""
        if excerpts == self.excerpts:
            return False
        assert excerpts.tokens <= self.room
        self.truncate(self.excerpts.common(excerpts, self.length))
        self.excerpts, self._most_exact = excerpts, self.capacity
        self.exact = self.exact if self.exact < self.length else self.capacity
        return True

    def doubt_excerpts(self) -> None:
        """Count the excerpts, and the tokens that see them, as not exact: a lossy store kept them."""
        self._most_exact = self.excerpts.before_excerpts
        self.exact = min(self.exact, self._most_exact)

    def truncate(self, length: int) -> None:
        """Forget the tokens from `length` on; known logits survive only if what they follow does."""
        assert 0 <= length <= self.length
        self.wasted += int(self._unneeded[length : self.length].sum())
        self._unneeded[length : self.length] = False
        self.length = length
        if self.logits_at > length:
            self.logits_at = -1
        if self.exact >= length:
            self.exact = self._most_exact
        if self.composed >= length:
            self.composed = self.capacity

    def mark_composed(self, start: int) -> None:
        """Mark the tokens from `start` on as composed: an approximation."""
        self.composed, self.exact = min(self.composed, start), min(self.exact, start)

    def mark_recomputed(self, end: int) -> None:
        """Mark the tokens up to `end`, and all of them if that is the last, as no longer composed."""
        until = end if end < self.length else self.capacity
        if self.exact == self.composed:
            self.exact = min(until, self._most_exact)
        self.composed = until

    @property
    def excerpts_exact(self) -> bool:
        """Whether the excerpts in the room are as the model computes them."""
        return self._most_exact == self.capacity

    def approximate(self, length: int) -> int:
        """Count those of the excerpts and the first `length` tokens that are not exact."""
        return max(0, length - self.exact) + (0 if self.excerpts_exact else self.excerpts.tokens)

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
        """Become the first `length` tokens of `other`: a copy instead of a forward pass.

        They must not see other excerpts than are here; these stay.
        """
        self.truncate(0)
        self.append(other.ids[:length])
        if other.exact < length:
            self.exact = min(self.exact, other.exact)
        if other.composed < length:
            self.composed = other.composed
        other.mark_needed(length)
