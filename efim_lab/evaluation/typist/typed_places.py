"""Says where a cursor is by what is typed before it, as a server could: what is shown may depend on this."""

from __future__ import annotations

import re
from typing import Literal, get_args

from efim_lab.evaluation.typist.cursor_kinds import Quote, quote_at
from efim_lab.evaluation.typist.lines import TypedLine

InCode = Literal[
    "number", "new name", "import", "after a dot", "start of line", "first word of a line", "word begun", "other"
]
Place = Literal[Quote, InCode]
PLACES: tuple[Place, ...] = get_args(Place)
# The first that matches the line up to the cursor.
_IN_CODE: tuple[tuple[Place, re.Pattern[str]], ...] = (
    ("start of line", re.compile(r"\s*\Z")),
    ("new name", re.compile(r"\s*(?:async\s+)?(?:def|class)\s+\w*\Z")),
    ("import", re.compile(r"\s*(?:from|import)\s")),
    ("number", re.compile(r"(?:.*[^\w.])?\.?\d[\w.]*\Z", re.DOTALL)),
    ("after a dot", re.compile(r".*\.\Z", re.DOTALL)),
    ("first word of a line", re.compile(r"\s*\w+\Z")),
    ("word begun", re.compile(r".*\w\Z", re.DOTALL)),
)
_BEGUN = re.compile(r"\w*\Z")


def place_of(line: TypedLine, cursor: int) -> Place:
    """Return the place of a cursor; text for people comes first."""
    if quote := quote_at(line, cursor):
        return quote
    typed = line.typed_at(cursor)
    for place, pattern in _IN_CODE:
        if pattern.match(typed):
            return place
    return "other"


def begun_word(typed: str) -> str:
    """Return the letters of the word at the end of what is typed."""
    return _BEGUN.findall(typed)[0]
