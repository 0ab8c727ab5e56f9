"""What a rule looks at, and what it answers with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from efim_ls.next_edit.changes import LineChange
from efim_ls.next_edit.pattern import Occurrence
from efim_ls.text.document import Document, PastEdit


class Situation(NamedTuple):
    """A document, its cursor, and what was changed of its lines, in the order of the edits; at least one line."""

    document: Document
    cursor: int
    changes: Sequence[LineChange]


class Candidate(NamedTuple):
    """A place where the tokens `removed` could become `added`, and what its confidence is computed from.

    `pattern` names the change if its tokens differ from place to place.
    """

    place: Occurrence
    features: dict[str, float]
    because: tuple[PastEdit, ...]
    pattern: tuple[str, ...] = ()


EditRule = Callable[[Situation], Sequence[Candidate]]
