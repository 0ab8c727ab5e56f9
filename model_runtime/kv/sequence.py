"""Token ids whose keys and values are computed, how good these are, and what a prompt can reuse. No tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np

from model_runtime.ids import Ids, common_prefix
from model_runtime.row_rules import PLAIN, KeptState, RowRule
from model_runtime.sequence_key import NOTHING_APART, SequenceKey, TextsApart


class Quality(IntEnum):
    """Where a row's keys and values are from, the worst first.

    EXACT: as the model computes them. LOSSY: a store's codec has changed them. BORROWED: they were computed in
    other sequences. Rows computed after a row, or rows that see it, are at most as good.
    """

    BORROWED = 0
    LOSSY = 1
    EXACT = 2


class Rows:
    """A number of rows, in runs. Quality never rises along them, since each row was computed from those before it.

    `length` counts the rows, `wasted` the rows that were prefetched and dropped unused.
    """

    def __init__(self) -> None:
        """Start without rows, which will see nothing but each other."""
        self.length = 0
        self._ends = [0, 0, 0]  # by quality: that many rows at the start are as good as that, or better
        self._sees_from, self.seen = 0, Quality.EXACT
        self._unneeded: list[range] = []  # ascending, with others between them
        self.wasted = 0

    def first_below(self, quality: Quality, length: int | None = None) -> int:
        """Return the first row that is not as good as that, or else the number of rows.

        With a `length`, search among that many rows: future rows are as good as the rows that they follow.
        """
        end = self._ends[quality]
        if length is None:
            return end
        if end == self.length:
            end = length if self.seen >= quality else self._sees_from
        return min(end, length)

    def worst(self, length: int) -> Quality:
        """Return the quality of the worst of the first `length` rows."""
        return next(quality for quality in reversed(Quality) if self._ends[quality] >= length)

    def append(self, count: int, quality: Quality = Quality.EXACT) -> None:
        """Append rows that were computed after those here, and lower them to a quality."""
        start = self.length
        self.length += count
        for better, end in enumerate(self._ends):
            if end == start:
                self._ends[better] = self.length
        if quality is not Quality.EXACT:
            self.lower(start, quality)
        if self.seen is not Quality.EXACT:
            self.lower(self._sees_from, self.seen)

    def lower(self, start: int, quality: Quality) -> None:
        """Mark the rows from `start` on as no better than that."""
        for better in range(quality + 1, len(self._ends)):
            self._ends[better] = min(self._ends[better], start)

    def renew(self, start: int, end: int) -> None:
        """Mark rows as computed again, after those before them."""
        self._ends = [max(good, end) if good >= start else good for good in self._ends]
        self.lower(self._sees_from, self.seen)

    def see(self, start: int, quality: Quality) -> None:
        """Let rows from `start` on, and all that are still to come there, see something of that quality."""
        self._sees_from, self.seen = start, quality
        self.lower(start, quality)

    def truncate(self, length: int) -> None:
        """Forget the rows from `length` on."""
        if self._unneeded:
            self.wasted += self.ahead(self.length) - self.ahead(length)
            self._unneeded = _between(self._unneeded, 0, length)
        if length < self.length:
            self.length = length
            self._ends = [min(end, length) for end in self._ends]

    def copy_prefix(self, other: Rows, length: int) -> None:
        """Become the first `length` rows of `other`, which are needed from now on."""
        self.truncate(0)
        for quality in reversed(Quality):
            self.append(other.first_below(quality, length) - self.length, quality)
        other.mark_needed(length)

    def mark_unneeded(self, start: int) -> None:
        """Mark the rows from `start` on as computed ahead of need."""
        before = _between(self._unneeded, 0, start)
        if before and before[-1].stop == start:
            start = before.pop().start
        self._unneeded = _between([*before, range(start, self.length)], 0, self.length)

    def mark_needed(self, length: int) -> None:
        """Mark the first `length` rows as needed by an answer."""
        self._unneeded = _between(self._unneeded, length, self.length)

    def ahead(self, length: int) -> int:
        """Count the prefetched rows among the first `length`."""
        return sum(map(len, _between(self._unneeded, 0, length)))


class TokenSequence:
    """Tokens computed so far, in order, at most `capacity` of them; nothing is allocated after the start.

    `length` counts the tokens held. If `logits_at` is not -1, the logits that follow `ids[:logits_at]` are known
    without a pass. `rows` say how good the tokens' keys and values are, and which of them an answer needed.

    Before the window of these tokens lie `excerpt_rows` rows, a multiple of 64, for `excerpts`: one after the other,
    the last one up to the window, so that token i is always at row `excerpt_rows + i`.

    Kinds of layers that keep fewer rows, or something else, have `rules`; some may keep rows from `base` on alone.
    """

    def __init__(self, capacity: int, excerpt_rows: int = 0, rules: Sequence[RowRule] = PLAIN) -> None:
        """Start empty; the rules serve this sequence alone."""
        self.capacity, self.excerpt_rows = capacity, excerpt_rows
        self.rules, self.base = rules, 0
        self.apart = NOTHING_APART
        self.rows, self.length = Rows(), 0
        self.logits_at = -1
        self._ids = np.zeros(capacity, dtype=np.int32)

    @property
    def ids(self) -> Ids:
        """The tokens held, as a view that the next append or truncation invalidates."""
        return self._ids[: self.length]

    def common(self, key: SequenceKey) -> int:
        """Return the length of the longest common prefix of the key's tokens and those held.

        With other excerpts than those that are here, tokens that see either are not held.
        """
        length = common_prefix(self.ids, key.ids)
        return length if key.apart is self.apart else self.apart.common(key.apart, length)

    def resumes_at(self, length: int) -> int:
        """Return where computing can go on, at or before `length`, once this is truncated there."""
        for rule in self.rules:
            length = rule.resumes_at(self, length)
        return length

    def kept(self, key: SequenceKey) -> int:
        """Count the key's tokens that stay once this is truncated to the common prefix."""
        return self.resumes_at(self.common(key))

    def reusable(self, key: SequenceKey) -> int:
        """Count the tokens of a prompt that need no pass; without known logits the last one needs one again."""
        n = self.common(key)
        return self.resumes_at(n if n < len(key.ids) or self.logits_at == n else n - 1)

    def begins(self, places: Ids) -> Ids | int:
        """Return the first rows that the tokens at these places of the window attend to, all up to their own."""
        excerpts, begin = self.apart, self.excerpt_rows - self.apart.tokens
        return np.where(places < excerpts.before_excerpts, self.excerpt_rows, begin) if excerpts.texts else begin

    def enter(self, excerpts: TextsApart) -> bool:
        """Have these excerpts, and forget the tokens that saw others; return whether they are others."""
        if excerpts == self.apart:
            return False
        assert excerpts.tokens <= self.excerpt_rows
        self.truncate(self.apart.common(excerpts, self.length))
        self.apart = excerpts
        self.rows.see(excerpts.before_excerpts, Quality.EXACT)
        return True

    def truncate(self, length: int) -> int:
        """Forget the tokens from `length` on, and tokens after which computing cannot continue; return where it can.

        Known logits survive only if their tokens do.
        """
        assert 0 <= length <= self.length
        length = self.resumes_at(length)
        self.rows.truncate(length)
        self.length = length
        if self.logits_at > length:
            self.logits_at = -1
        for rule in self.rules:
            rule.truncated(self, length)
        return length

    def mark(self, places: Iterable[int]) -> None:
        """Have what can be cut off after these counts of tokens kept, as long as others can go instead."""
        for rule in self.rules:
            rule.marked(places)

    def saved(self, unit: int) -> frozenset[int] | None:
        """Return the places, multiples of `unit`, where more than rows is worth saving; None if all is rows."""
        return next((places for rule in self.rules if (places := rule.saved(unit)) is not None), None)

    def approximate(self, length: int) -> int:
        """Count the tokens of the excerpts and of the first `length` that are not exact."""
        excerpts = 0 if self.rows.seen is Quality.EXACT else self.apart.tokens
        return length - self.rows.first_below(Quality.EXACT, length) + excerpts

    def places_of_pass(self, count: int, recomputed: Ids | None) -> Ids:
        """Return the places of `count` tokens that a pass computes: the next ones, or those `recomputed` if given.

        IndexError if there is no room for the next ones, or a token to be computed again is not held.
        """
        length = self.length
        if recomputed is None:
            if length + count > self.capacity:
                raise IndexError(f"an arena of {self.capacity} tokens has no room for {count} after {length}")
            return np.arange(length, length + count, dtype=np.int32)
        held = not count or 0 <= recomputed[0] <= recomputed[-1] < length
        if len(recomputed) != count or not held or (np.diff(recomputed) < 1).any():
            raise IndexError(f"{count} tokens cannot be computed again at {recomputed.tolist()} of {length}")
        return recomputed

    def begin_pass(self, count: int, rows: int) -> tuple[KeptState, ...]:
        """Get ready for a pass over the next `count` tokens, the last `rows` of which get logits.

        Return the states to keep, and where.
        """
        kept: tuple[KeptState, ...] = ()
        for rule in self.rules:
            kept += rule.before_pass(self, count, rows)
        return kept

    def end_pass(self, ids: Ids, recomputed: Ids | None) -> None:
        """Hold what a pass has computed; logits that follow tokens computed again are no longer known."""
        if recomputed is None:
            self.append(ids)
            for rule in self.rules:
                rule.after_pass(self)
        elif len(recomputed) and self.logits_at > recomputed[0]:
            self.logits_at = -1

    def append(self, ids: Ids, quality: Quality = Quality.EXACT) -> None:
        """Append tokens whose keys and values have just been computed, or fetched in that quality."""
        start, end = self.length, self.length + len(ids)
        assert end <= self.capacity
        self._ids[start:end] = ids
        self.rows.append(len(ids), quality)
        self.length = end

    def give_back(self) -> None:
        """Forget all tokens and excerpts, for their memory to be used elsewhere."""
        self.enter(NOTHING_APART)
        self.truncate(0)

    def change_owner(self) -> None:
        """Begin to serve another frame, with the tokens that it shares with the last one."""

    def copy_prefix(self, other: TokenSequence, length: int) -> None:
        """Become the first `length` tokens of `other`: a copy instead of a forward pass.

        They must not see other excerpts than are here; these stay.
        """
        self.truncate(0)
        self.base = other.base
        self._ids[:length] = other.ids[:length]
        self.rows.copy_prefix(other.rows, length)
        self.length = length
        for rule, theirs in zip(self.rules, other.rules, strict=True):
            rule.copied(theirs, length)


def resumes_at(length: int) -> int:
    """Return where computing can go on, at or before `length` rows: after any of them, if each is kept."""
    return length


def _between(runs: list[range], start: int, end: int) -> list[range]:
    """Return what lies between two rows of each run, unless that is nothing."""
    return [part for run in runs if (part := range(max(run.start, start), min(run.stop, end)))]
