"""Which part of a text a prompt shows: where the head starts and how far the tail reaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Pieces = Callable[[str], list[tuple[str, int]]]
MOST_CHARACTERS = 8  # a token: more text than this times the budget is not even looked at
OPENING = 256  # characters by which a window's start is found again


@dataclass(frozen=True)
class Budget:
    """Most tokens of each part of a prompt."""

    head: int = 1536
    tail: int = 384

    @property
    def typed(self) -> int:
        """Beyond this, what was typed moves into the head."""
        return self.head // 4


class Window:
    """Chooses windows within a budget. Pure; `pieces` gives a text's fragments, each with its number of tokens."""

    def __init__(self, budget: Budget, pieces: Pieces) -> None:
        """Windows of at most these sizes."""
        self._budget, self._pieces = budget, pieces

    def count(self, text: str) -> int:
        """Number of tokens of a text."""
        return sum(count for _, count in self._pieces(text))

    def start(self, text: str, anchor: int, last: tuple[int, str] | None) -> int:
        """Where the head that ends at the anchor starts.

        `last` is the start and the head of the window before: its start is kept while the head fits the budget
        (R2); else, where the text's own start does not fit either, 60 % of the budget back from the anchor.
        """
        for start in (_found_again(text, *last) if last else None, 0):
            if start is not None and start <= anchor and self._fits(text[start:anchor]):
                return start
        return self._dropped(text, anchor)

    def tail(self, text: str, at: int) -> str:
        """The text from `at` on, as many whole fragments as the budget allows (R3)."""
        tokens, size = 0, 0
        for piece, count in self._pieces(text[at : at + self._budget.tail * MOST_CHARACTERS]):
            tokens += count
            if tokens > self._budget.tail:
                break
            size += len(piece)
        return text[at : at + size]

    def _dropped(self, text: str, anchor: int) -> int:
        budget = self._budget.head * 6 // 10
        starts, start, tokens = list[int](), anchor, 0
        for piece, count in reversed(self._pieces(text[max(0, anchor - budget * MOST_CHARACTERS) : anchor])):
            tokens += count
            if tokens > budget:
                break
            start -= len(piece)
            starts.append(start)
        furthest = (anchor - start) // 3
        return min((s for s in starts if _is_top_level(text, s) and s - start <= furthest), default=start)

    def _fits(self, head: str) -> bool:
        budget = self._budget.head
        return len(head) <= budget * MOST_CHARACTERS and self.count(head) <= budget


def _found_again(text: str, start: int, head: str) -> int | None:
    """Where a window's start is now: edits are not tracked, the text itself tells."""
    opening = head[:OPENING]
    if not opening or text.startswith(opening, start):
        return start
    found = text.find(opening)
    return found if found >= 0 else None


def _is_top_level(text: str, at: int) -> bool:
    """Whether a definition or statement without indentation begins here, after a blank line."""
    blank_above = text.startswith(("\n\n", "\r\r"), at - 2) or text.startswith("\r\n\r\n", at - 4)
    return not text[at : at + 1].isspace() and blank_above
