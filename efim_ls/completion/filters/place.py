"""The place of a suggestion, and the views of the surrounding document that filters share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from efim_ls.text.lines import enclosing_line

NEIGHBOURHOOD = 4000  # characters around the cursor's line that filters may look at


@dataclass(frozen=True)
class Place:
    """The document around the cursor.

    `before` and `rest` are the cursor's line on either side of the cursor, without terminator; `above` and
    `below` are some of the lines around it, with any terminators.
    """

    before: str
    rest: str
    above: str
    below: str


class Filter(Protocol):
    """A pure function that takes a suggestion and its place and returns the part to keep."""

    __name__: str

    def __call__(self, text: str, place: Place) -> str: ...


def place_at(text: str, cursor: int) -> Place:
    """Return the place of a cursor in a text."""
    start, end, below = enclosing_line(text, cursor)
    return Place(
        before=text[max(start, cursor - NEIGHBOURHOOD) : cursor],
        rest=text[cursor:end][:NEIGHBOURHOOD],
        above=text[max(0, start - NEIGHBOURHOOD) : start],
        below=text[below : below + NEIGHBOURHOOD],
    )


def lines_with(text: str, place: Place) -> list[str]:
    """Return the document's lines as they would be with the suggestion, one for each line of it."""
    return f"{place.before}{text}{place.rest}".split("\n")


def filled_lines(text: str) -> list[str]:
    """Return the non-blank lines without trailing blanks, whatever their terminators."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def indent_of(line: str) -> str:
    """Return a line's leading tabs and spaces."""
    return line[: len(line) - len(line.lstrip(" \t"))]
