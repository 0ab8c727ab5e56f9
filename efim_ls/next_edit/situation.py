"""The input and the output of a rule, the edit that is offered, and what a place's line tells of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log1p
from typing import NamedTuple

from efim_ls.languages.table import LANGUAGES
from efim_ls.next_edit.changes import LineChange
from efim_ls.next_edit.pattern import Occurrence
from efim_ls.text.document import Document, PastEdit
from efim_ls.text.outline import Importable

QUOTES = "\"'`"


class Situation(NamedTuple):
    """A document, its cursor, and its last edits, at least one.

    `changes` are their changes of its lines, in their order; empty if the last edit did not change a line that still
    exists, or is unfinished. `importable` has the possible sources of names that the last edit typed.
    """

    document: Document
    cursor: int
    changes: Sequence[LineChange]
    edits: Sequence[PastEdit] = ()
    importable: Sequence[Importable] = ()


class Candidate(NamedTuple):
    """A place where the tokens `removed` could become `added`, and what its confidence is computed from.

    `pattern` names the change if its tokens differ from place to place, and `level` what its confidence has to reach
    if that is not its rule's level.
    """

    place: Occurrence
    features: dict[str, float]
    because: tuple[PastEdit, ...]
    pattern: tuple[str, ...] = ()
    level: str = ""


EditRule = Callable[[Situation], Sequence[Candidate]]


class ProposedEdit(NamedTuple):
    """An edit that is offered: the text from `start` to `end` of a document, offsets in it, becomes `added`.

    `removed` is that text now. `rule` names who proposes it, `because` are the edits that it follows from, and
    `confidence` is how often such proposals are right, from 0 to 1. `pattern` names the change if its tokens
    differ from place to place.
    """

    uri: str
    start: int
    end: int
    removed: str
    added: str
    rule: str
    confidence: float
    because: tuple[PastEdit, ...]
    pattern: tuple[str, ...] = ()


def in_comment(left: Sequence[str], language: str) -> bool:
    """Return whether a comment begins among the tokens before a place, or its line is one of a block's."""
    line = "".join(left)
    return LANGUAGES[language].comment in line or line.lstrip().startswith(("/*", "* "))


def in_string(left: Sequence[str]) -> bool:
    """Return whether a quote is open after the tokens before a place."""
    return any(left.count(quote) % 2 for quote in QUOTES)


def position(place: Occurrence, found: Sequence[Occurrence], before: int, last: int) -> dict[str, float]:
    """Return where a place lies, seen from the last two examples, and which that fit as well were passed over."""
    direction = 1 if last >= before else -1
    alike = [each.line for each in found if each.left >= place.left and each.right >= place.right]
    passed = [line for line in alike if (line - last) * direction < 0]
    skipped = sum((line - before) * direction > 0 for line in passed)
    return {
        "ahead": (place.line - last) * direction > 0,
        "within": (place.line - last) * direction < 0 < (place.line - before) * direction,
        "skipped": log1p(skipped),
        "behind": log1p(len(passed) - skipped),
        "near": min(abs(place.line - last), abs(place.line - before)) <= 2,
    }
