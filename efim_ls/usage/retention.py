"""How much of a text that was put into a document is still there after later edits; in code points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

Piece = tuple[int, int]


@dataclass(frozen=True)
class Edit:
    """At `at`, `removed` characters made way for `added` new ones."""

    at: int
    removed: int
    added: int

    @property
    def end(self) -> int:
        """Where what is new ends."""
        return self.at + self.added


def narrowed(at: int, old: str, new: str) -> Edit:
    """The edit that puts `new` in place of `old`, less what both begin with and what both end with then."""
    most, a, b = min(len(old), len(new)), len(old), len(new)
    before = _common(most, lambda low, high: old[low:high] == new[low:high])
    after = _common(most - before, lambda low, high: old[a - high : a - low] == new[b - high : b - low])
    return Edit(at + before, a - before - after, b - before - after)


class Kept:
    """What is left of the characters of a range: those that no edit has removed, wherever edits have moved them."""

    def __init__(self, start: int, end: int) -> None:
        self._pieces: list[Piece] = [(start, end)]

    @property
    def characters(self) -> int:
        """How many are left."""
        return sum(end - start for start, end in self._pieces)

    def apply(self, edit: Edit) -> None:
        """Follow an edit of the document."""
        self._pieces = [left for piece in self._pieces for left in _after(piece, edit)]


def _common(most: int, same: Callable[[int, int], bool]) -> int:
    """How many characters are the same, counted from an end, by halving: texts may be large."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same(low, middle) else (low, middle - 1)
    return low


def _after(piece: Piece, edit: Edit) -> Iterator[Piece]:
    start, end = piece
    moved, removed_to = edit.added - edit.removed, edit.at + edit.removed
    for left in ((start, min(end, edit.at)), (max(start, removed_to) + moved, end + moved)):
        if left[0] < left[1]:
            yield left
