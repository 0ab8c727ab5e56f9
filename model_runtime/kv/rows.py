"""How good the computed rows of one token sequence are, and which of them an answer needed. No tensors, no tokens."""

from __future__ import annotations

from enum import IntEnum


class Quality(IntEnum):
    """Where a row's keys and values are from, the worst first.

    EXACT: as the model computes them. LOSSY: a store's codec has changed them. COMPOSED: they were put together from
    other sequences. What was computed after a row, or sees it, is at most as good.
    """

    COMPOSED = 0
    LOSSY = 1
    EXACT = 2


class Rows:
    """Runs of rows. Quality never rises along them, since each row was computed from those before it.

    `wasted` counts the rows that were computed ahead of need and dropped before they were needed.
    """

    def __init__(self) -> None:
        """Start without rows, which will see nothing but each other."""
        self._ends = [0, 0, 0]  # by quality: that many rows at the start are as good as that, or better
        self._sees_from, self.seen = 0, Quality.EXACT
        self._unneeded: list[range] = []  # ascending, with others between them
        self.wasted = 0

    @property
    def length(self) -> int:
        """Number of rows."""
        return self._ends[Quality.COMPOSED]

    def first_below(self, quality: Quality, length: int | None = None) -> int:
        """Return the first row that is not as good as that, or else the number of rows.

        With a `length`, search among so many rows: those still to come are as good as those that they follow.
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
        self._ends = [end + count if end == start else end for end in self._ends]
        self.lower(start, quality)
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
        self.wasted += self.ahead(self.length) - self.ahead(length)
        self._ends = [min(end, length) for end in self._ends]
        self._unneeded = _between(self._unneeded, 0, length)

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
        """Count those of the first `length` rows that were computed ahead of need."""
        return sum(map(len, _between(self._unneeded, 0, length)))


def resumes_at(length: int) -> int:
    """Return where computing can go on, at or before `length` rows: after any of them, since each is kept."""
    return length


def _between(runs: list[range], start: int, end: int) -> list[range]:
    """Return what lies between two rows of each run, unless that is nothing."""
    return [part for run in runs if (part := range(max(run.start, start), min(run.stop, end)))]
