"""The place of a suggestion, and the views of the surrounding document that filters share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from efim_ls.request import Expected, Request
from efim_ls.text.lines import enclosing_line
from model_runtime.engine.stops import is_closers

_WORD = re.compile(r"\w")
NEIGHBOURHOOD = 4000  # characters of the cursor's line, above it and below it that most filters look at


def _is_nowhere(_word: str) -> bool:
    return False


def _anything(_typed: str) -> Expected | None:
    return None


@dataclass(frozen=True)
class Place:
    """The document around the cursor.

    `before` and `rest` are the cursor's line on either side of the cursor, without terminator; `above` and
    `below` are all lines around it, with any terminators. `language` is LSP's name of the document's language,
    empty if it has none; `others` are the texts of other open documents. `names_after` tells which names code expects
    once some text stands at the cursor, None if that is anything, and `in_modules` whether a word is a name in a
    module that is known. In a part of a document, that alone is the document here, and `part_end` would end it.
    """

    before: str
    rest: str
    above: str
    below: str
    language: str = ""
    others: tuple[str, ...] = ()
    names_after: Callable[[str], Expected | None] = _anything
    in_modules: Callable[[str], bool] = _is_nowhere
    part_end: re.Pattern[str] | None = None

    @property
    def near_above(self) -> str:
        """The end of the text above the cursor's line."""
        return self.above[-NEIGHBOURHOOD:]

    @property
    def near_below(self) -> str:
        """The beginning of the text below the cursor's line."""
        return self.below[:NEIGHBOURHOOD]

    @cached_property
    def lines_above(self) -> list[str]:
        """The non-blank lines near above the cursor's line."""
        return filled_lines(self.near_above)

    @cached_property
    def lines_below(self) -> list[str]:
        """The non-blank lines near below the cursor's line."""
        return filled_lines(self.near_below)


def place_of(request: Request) -> Place:
    """Return the place of a request."""
    place, modules = place_at(request.text, request.cursor, request.language, request.others), request.modules
    if request.part is not None:
        code = request.part.code(request.text, request.cursor)
        place = replace(place_at(*code, place.language, place.others), part_end=request.part.end)
    listed = request.listed
    if modules is None and listed is None:
        return place

    def names_after(typed: str) -> Expected | None:
        text, cursor = f"{request.text[: request.cursor]}{typed}", request.cursor + len(typed)
        whole = f"{text}{request.text[request.cursor :]}"
        known = modules.expected(request.uri, whole, cursor) if modules else None
        return known or (listed.expected(text, cursor) if listed else None)

    return replace(place, names_after=names_after, in_modules=modules.has if modules else _is_nowhere)


class Filter(Protocol):
    """A pure function that takes a suggestion and its place and returns the part to keep."""

    __name__: str

    def __call__(self, text: str, place: Place) -> str: ...


def place_at(text: str, cursor: int, language: str = "", others: tuple[str, ...] = ()) -> Place:
    """Return the place of a cursor in a text of a language, with the texts of other open documents."""
    start, end, below = enclosing_line(text, cursor)
    return Place(
        before=text[max(start, cursor - NEIGHBOURHOOD) : cursor],
        rest=text[cursor:end][:NEIGHBOURHOOD],
        above=text[:start],
        below=text[below:],
        language=language,
        others=others,
    )


def beginning(text: str, end: int, place: Place) -> str:
    """Return a suggestion up to an offset; nothing before code, which only the whole suggestion leads into."""
    return text[:end].rstrip() if is_closers(place.rest) else ""


def holds_word(text: str, word: str) -> bool:
    """Return whether a word stands in a text as a whole word."""
    at = text.rfind(word)
    while at >= 0:
        if not _WORD.match(text, at + len(word)) and (at == 0 or not _WORD.match(text, at - 1)):
            return True
        at = text.rfind(word, 0, at)
    return False


def lines_with(text: str, place: Place) -> list[str]:
    """Return the document's lines as they would be with the suggestion, one for each line of it."""
    return f"{place.before}{text}{place.rest}".split("\n")


def filled_lines(text: str) -> list[str]:
    """Return the non-blank lines without trailing blanks, whatever their terminators."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def indent_of(line: str) -> str:
    """Return a line's leading tabs and spaces."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def has_letters(line: str) -> bool:
    """Return whether there is a letter or digit in a line."""
    return any(map(str.isalnum, line))
