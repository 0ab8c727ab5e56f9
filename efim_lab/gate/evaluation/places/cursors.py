"""Random cursors in held-out lines, and the text around them that prompts may use."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from efim_lab.gate.documents import CodeDocument

BEFORE, AFTER = 1400, 500  # characters shown before the cursor and after its line
LONGEST_LINE = 400  # characters; longer lines are data that no one types
LONGEST_INCREMENT = 200  # characters, as EFIM's fragments in training (arXiv 2505.21889)
_BEGUN = re.compile(r"\w*\Z")


@dataclass(frozen=True)
class Context:
    """The text visible at a cursor: whole lines, the cursor's line up to it, and what follows that line.

    `increment` is how many characters before the cursor a published EFIM prompt treats as newly typed. `language` is
    LSP's name of the file's language.
    """

    head: str
    typed: str
    tail: str
    increment: int
    language: str = ""


@dataclass(frozen=True)
class CursorPlace:
    """A cursor and the true `rest` of its line, never blank."""

    context: Context
    rest: str

    @property
    def inside_word(self) -> bool:
        """Whether the cursor is inside a word."""
        return is_word(self.context.typed[-1:]) and is_word(self.rest[0])


def choose_places(documents: Sequence[CodeDocument], lines: int) -> list[CursorPlace]:
    """Choose a cursor in each of up to `lines` lines that are not blank; determined by the documents.

    The random order does not depend on `lines`: fewer places are the first of more.
    """
    rng = random.Random(0)
    return [_place(document, row, rng) for document, row in shuffled_lines(documents, rng)[:lines]]


def shuffled_lines(documents: Sequence[CodeDocument], rng: random.Random) -> list[tuple[CodeDocument, int]]:
    """List every line that is not blank and not too long to be typed, as (its document, index), shuffled."""
    found = [(document, row) for document in documents for row in _written(document.text)]
    rng.shuffle(found)
    return found


def context_at(text: str, cursor: int, end: int, increment: int) -> Context:
    """Return the context of a cursor whose hidden text ends at `end`, with all the text before it."""
    anchor = text.rfind("\n", 0, cursor) + 1
    return Context(text[:anchor], text[anchor:cursor], text[end:], increment)


def window_at(text: str, cursor: int, line_end: int, increment: int) -> Context:
    """Return the context of a cursor with the rest of its line hidden and a limited window around it."""
    start = _line_start(text, max(0, cursor - BEFORE))
    shown = text[start : line_end + 1 + AFTER]
    return context_at(shown, cursor - start, line_end + 1 - start, increment)


def line_at(text: str, row: int) -> tuple[str, int]:
    """Return a line without its line break, and its offset."""
    lines = text.split("\n")
    return lines[row], [0, *accumulate(len(each) + 1 for each in lines)][row]


def is_word(character: str) -> bool:
    """Return whether a character can be part of a name; false for an empty string."""
    return character.isalnum() or character == "_"


def begun_word(typed: str) -> str:
    """Return the letters of the word at the end of the typed text."""
    return _BEGUN.findall(typed)[0]


def draw_increment(rng: random.Random) -> int:
    """Draw how many characters before a cursor count as newly typed."""
    return rng.randint(1, LONGEST_INCREMENT)


def _written(text: str) -> list[int]:
    return [row for row, line in enumerate(text.split("\n")) if line.strip() and len(line) <= LONGEST_LINE]


def _place(document: CodeDocument, row: int, rng: random.Random) -> CursorPlace:
    """Choose a cursor between the end of the indentation and the line's last character."""
    text = document.text
    line, anchor = line_at(text, row)
    cursor = anchor + rng.randint(len(line) - len(line.lstrip()), len(line.rstrip()) - 1)
    window = window_at(text, cursor, anchor + len(line), draw_increment(rng))
    return CursorPlace(replace(window, language=document.language), text[cursor : anchor + len(line)])


def _line_start(text: str, at: int) -> int:
    """Return the first line start at or after `at`: the server's windows begin with whole lines."""
    return at if at == 0 or text[at - 1] == "\n" else text.index("\n", at) + 1
