"""Which part of a text a prompt shows: where the head starts and how far the tail reaches."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from efim_ls.text.lines import starts_line
from model_runtime.prompt.context import ContextBudget

Pieces = Callable[[str], list[tuple[str, int]]]
MARKERS = 3  # tokens of a template with markers of one token each and no BOS
MOST_CHARACTERS = 8  # per token: text longer than this times the budget is not tokenized
STARVED = 8  # a head below 1/8 of its budget, with more text above, shows the model too little
BLANK_LINES = re.compile(r"\s*[\r\n]")
OPENING = 256  # characters that identify a window's start
PATHS = 64  # tokens for the names of the repository and of the document before text of other files
SURROUNDING_CHARACTERS = 1 << 16  # on each side of a window that are counted, too: nearly always the whole file
FURTHEST_MOVE = 1 << 20  # characters: a window moved further by one edit is not searched for, but made again


def surroundings(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the counted text before `start` and after `end`."""
    return text[max(0, start - SURROUNDING_CHARACTERS) : start], text[end : end + SURROUNDING_CHARACTERS]


@dataclass(frozen=True)
class Budget:
    """The most tokens of each part of a prompt; `markers` is the template's (`Template.markers`).

    A `context` that lies `apart`, before the window, takes nothing from the prompt's length. The `reason` says why
    there is text of other files, or why not. `shortest` is the head of the first window at a place where a prompt
    takes seconds, else 0.
    """

    head: int = 1536
    tail: int = 384
    markers: int = MARKERS
    context: ContextBudget = ()
    apart: bool = False
    reason: str = ""
    shortest: int = 0

    @property
    def short(self) -> Budget | None:
        """The budget of the first window at a place, None if it is whole at once."""
        return replace(self, head=self.shortest, tail=self.shortest // 5, shortest=0) if self.shortest else None

    def describe(self) -> dict[str, object]:
        """Return how much text a prompt shows, and whether there is some of other files."""
        return {
            "head_tokens": self.head,
            "tail_tokens": self.tail,
            "other_files": "on" if any(self.context) else "off",
            "other_files_reason": self.reason,
        }

    @property
    def typed(self) -> int:
        """The most tokens of typed; beyond them, it moves into the head."""
        return self.head // 4

    @property
    def context_tokens(self) -> int:
        """The most tokens of other files among a prompt's own, with markers and the names that come with them."""
        return sum(self.context) + PATHS if any(self.context) and not self.apart else 0

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the longest prompt: in an overlong line, typed may take twice its budget."""
        return self.markers + self.context_tokens + self.head + self.tail + 2 * self.typed


class Window:
    """Chooses windows within a budget. Pure; `pieces` gives a text's fragments, each with its number of tokens."""

    def __init__(self, budget: Budget, pieces: Pieces) -> None:
        """Choose windows within the budget."""
        self._budget, self._pieces = budget, pieces

    def count(self, text: str) -> int:
        """Return the number of tokens in a text."""
        return sum([count for _, count in self._pieces(text)])

    def fits(self, text: str, tokens: int) -> bool:
        """Return whether a text has at most this many tokens."""
        return self._count_within(text, tokens) is not None

    def start(self, text: str, anchor: int, last: tuple[int, str] | None) -> int:
        """Return the start of the head that ends at the anchor.

        `last` is the start and head of the previous window, whose start is kept while the head fits the budget (R2).
        Otherwise the head starts with the text or, if that does not fit, 60 % of the budget above the anchor.
        """
        for start in (_found_again(text, *last) if last else None, 0):
            if start is not None and start <= anchor and self._serves(text, start, anchor):
                return start
        return self._shrunk_start(text, anchor)

    def _serves(self, text: str, start: int, anchor: int) -> bool:
        """Return whether a head fits its budget and is not starved while there is text above it."""
        budget = self._budget.head
        tokens = self._count_within(text[start:anchor], budget)
        return tokens is not None and (start == 0 or tokens * STARVED >= budget)

    def _count_within(self, text: str, most: int) -> int | None:
        """Return the number of tokens, None if it exceeds `most`; an overlong text is not tokenized."""
        if len(text) > most * MOST_CHARACTERS or (tokens := self.count(text)) > most:
            return None
        return tokens

    def is_long(self, tail: str) -> bool:
        """Return whether a tail fills half of its budget."""
        return self.count(tail) * 2 >= self._budget.tail

    def tail(self, text: str, at: int) -> str:
        """Return the text from `at` on, as many whole fragments as the budget allows (R3)."""
        return self.beginning(text, at, self._budget.tail)

    def beginning(self, text: str, at: int, most: int) -> str:
        """Return the text from `at` on, as many whole fragments as fit `most` tokens."""
        tokens, size = 0, 0
        for piece, count in self._pieces(text[at : at + most * MOST_CHARACTERS]):
            tokens += count
            if tokens > most:
                break
            size += len(piece)
        return text[at : at + size]

    def _shrunk_start(self, text: str, anchor: int) -> int:
        """Return a line start about 60 % of the budget above the anchor, or a top-level definition just below it."""
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
    """Return where a window's start is now, found in the text itself as edits are not tracked; None if lost."""
    opening = head[:OPENING]
    if start == 0 or (text.startswith(opening, start) and starts_line(text, start)):
        return start
    if not opening:
        return None
    low, high = max(0, start - FURTHEST_MOVE), start + FURTHEST_MOVE + len(opening)
    found = [0] if low == 0 and text.startswith(opening) else list[int]()
    for end in "\n", "\r":  # searched for with the line end before it: text that repeats itself matches at lines only
        above, below = text.rfind(end + opening, low, start + len(opening)), text.find(end + opening, start, high)
        found += [at + 1 for at in (above, below) if at >= 0]
    return min((s for s in sorted(found) if starts_line(text, s)), key=lambda s: abs(s - start), default=None)


def _first_line(text: str, at: int, end: int) -> int | None:
    """Return the first line start in a fragment: some tokenizers' fragments begin with the previous line end."""
    if starts_line(text, at):
        return at
    blank = BLANK_LINES.match(text, at, end)
    return blank.end() if blank and blank.end() < end else None


def _is_top_level(text: str, at: int) -> bool:
    """Return whether an unindented definition or statement begins here, after a blank line."""
    blank_above = text.startswith(("\n\n", "\r\r"), at - 2) or text.startswith("\r\n\r\n", at - 4)
    return not text[at : at + 1].isspace() and blank_above
