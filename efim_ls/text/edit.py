"""What an edit did to a text, in code points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """`removed` characters at `at` were replaced by `added` new ones."""

    at: int
    removed: int
    added: int

    @property
    def end(self) -> int:
        """Where the new characters end."""
        return self.at + self.added


def narrowed(at: int, old: str, new: str) -> Edit:
    """Return the edit that replaces `old` by `new`, without the beginning and end that both share."""
    most, a, b = min(len(old), len(new)), len(old), len(new)
    before = _common(most, lambda low, high: old[low:high] == new[low:high])
    after = _common(most - before, lambda low, high: old[a - high : a - low] == new[b - high : b - low])
    return Edit(at + before, a - before - after, b - before - after)


def _common(most: int, same: Callable[[int, int], bool]) -> int:
    """Count equal characters from one end by bisection: texts may be large."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same(low, middle) else (low, middle - 1)
    return low
