"""The input and the output of a rule, and the edit that is offered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from efim_ls.next_edit.changes import LineChange
from efim_ls.next_edit.pattern import Occurrence
from efim_ls.text.document import Document, PastEdit
from efim_ls.text.outline import Importable


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
