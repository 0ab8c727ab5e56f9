"""Where a suggestion goes, and the views of the document around it that filters share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol


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
    """A pure function from a suggestion and its place to what is left of the suggestion."""

    __name__: str

    def __call__(self, text: str, place: Place) -> str: ...


def lines_with(text: str, place: Place) -> list[str]:
    """Return the document's lines that the suggestion would make or change, one for each line of it."""
    return f"{place.before}{text}{place.rest}".split("\n")


def filled_lines(text: str) -> list[str]:
    """Return the lines that hold more than blanks, without trailing blanks, whatever ends them."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def indent_of(line: str) -> str:
    """Return the tabs and spaces that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]
