"""Which part of a text a prompt shows: where the head starts and how far the tail reaches."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from efim_ls.text.lines import starts_line

Pieces = Callable[[str], list[tuple[str, int]]]
MARKERS = 3  # tokens of a template whose markers are one token each, without a BOS
MOST_CHARACTERS = 8  # a token: more text than this times the budget is not even looked at
STARVED = 8  # a head of less than this part of its budget, with text above it, shows the model too little
BLANK_LINES = re.compile(r"\s*[\r\n]")
OPENING = 256  # characters by which a window's start is found again


@dataclass(frozen=True)
class Budget:
    """Most tokens of each part of a prompt; `markers` are those of the template (`Template.markers`)."""

    head: int = 1536
    tail: int = 384
    markers: int = MARKERS

    @property
    def typed(self) -> int:
        """Beyond this, what was typed moves into the head."""
        return self.head // 4

    @property
    def prompt_tokens(self) -> int:
        """The longest prompt: in a line that is too long to be typed, typed may be twice as long."""
        return self.markers + self.head + self.tail + 2 * self.typed


class Window:
    """Chooses windows within a budget. Pure; `pieces` gives a text's fragments, each with its number of tokens."""

    def __init__(self, budget: Budget, pieces: Pieces) -> None:
        """Windows of at most these sizes."""
        self._budget, self._pieces = budget, pieces

    def count(self, text: str) -> int:
        """Number of tokens of a text."""
        return sum(count for _, count in self._pieces(text))

    def fits(self, text: str, tokens: int) -> bool:
        """Whether a text has at most so many tokens."""
        return self._count_within(text, tokens) is not None

    def start(self, text: str, anchor: int, last: tuple[int, str] | None) -> int:
        """Where the head that ends at the anchor starts.

        `last` is the start and the head of the window before: its start is kept while the head fits the budget
        (R2); else, where the text's own start does not fit either, 60 % of the budget back from the anchor.
        """
        for start in (_found_again(text, *last) if last else None, 0):
            if start is not None and start <= anchor and self._serves(text, start, anchor):
                return start
        return self._dropped(text, anchor)

    def _serves(self, text: str, start: int, anchor: int) -> bool:
        """Whether a head fits its budget and is not starved while there is text above it."""
        budget = self._budget.head
        tokens = self._count_within(text[start:anchor], budget)
        return tokens is not None and (start == 0 or tokens * STARVED >= budget)

    def _count_within(self, text: str, most: int) -> int | None:
        """Number of tokens, None where they are more; a text that is far too long is not tokenized."""
        if len(text) > most * MOST_CHARACTERS or (tokens := self.count(text)) > most:
            return None
        return tokens

    def tail(self, text: str, at: int) -> str:
        """The text from `at` on, as many whole fragments as the budget allows (R3)."""
        return self.beginning(text, at, self._budget.tail)

    def beginning(self, text: str, at: int, most: int) -> str:
        """The text from `at` on, as many whole fragments as make at most so many tokens."""
        tokens, size = 0, 0
        for piece, count in self._pieces(text[at : at + most * MOST_CHARACTERS]):
            tokens += count
            if tokens > most:
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
        starts = [line for s in starts if (line := _first_line(text, s, anchor)) is not None] or starts
        start = min(starts, default=anchor)
        furthest = (anchor - start) // 3
        return min((s for s in starts if _is_top_level(text, s) and s - start <= furthest), default=start)


def _found_again(text: str, start: int, head: str) -> int | None:
    """Where a window's start is now: edits are not tracked, the text itself tells. The text's start stays its own."""
    opening = head[:OPENING]
    if start == 0 or (text.startswith(opening, start) and starts_line(text, start)):
        return start
    found = (match.start() for match in re.finditer(re.escape(opening), text)) if opening else ()
    return min((s for s in found if starts_line(text, s)), key=lambda s: abs(s - start), default=None)


def _first_line(text: str, at: int, end: int) -> int | None:
    """Where the first line of a fragment starts: some tokenizers' fragments begin with the line end before it."""
    if starts_line(text, at):
        return at
    blank = BLANK_LINES.match(text, at, end)
    return blank.end() if blank and blank.end() < end else None


def _is_top_level(text: str, at: int) -> bool:
    """Whether a definition or statement without indentation begins here, after a blank line."""
    blank_above = text.startswith(("\n\n", "\r\r"), at - 2) or text.startswith("\r\n\r\n", at - 4)
    return not text[at : at + 1].isspace() and blank_above
