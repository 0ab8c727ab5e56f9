"""Where suggestions are asked for by a key: inside lines, and where statements begin."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.typist.lines import TypedLine, choose_lines
from efim_lab.gate.evaluation.typist.whole_files import draw_cursors

KeyKind = Literal["in lines", "statements"]
KINDS: tuple[KeyKind, ...] = ("in lines", "statements")
TRIES = 8  # lines looked at for each line that begins a statement


class KeyPlace(NamedTuple):
    """A cursor in a line whose text after it is removed; the text below the line stays."""

    kind: KeyKind
    line: TypedLine
    cursor: int

    @property
    def rest(self) -> str:
        """What stands in the finished file from the cursor to the end of its line."""
        return self.line.document.text[self.cursor : self.line.end]

    @property
    def above(self) -> str:
        """The text above the cursor's line."""
        return self.line.document.text[: self.cursor - len(self.before)]

    @property
    def before(self) -> str:
        """The line up to the cursor."""
        return self.line.typed_at(self.cursor)


def choose_key_places(documents: Sequence[CodeDocument], count: int) -> list[KeyPlace]:
    """Choose up to `count` places of each kind; determined by the documents, fewer are the first of more."""
    lines = choose_lines(documents, count * TRIES)
    inside = lines[:count]
    beginning = islice((line for line in lines if line.row + 1 in statement_rows(line.document.text)), count)
    return [
        *(KeyPlace("in lines", line, cursor) for line, cursor in zip(inside, draw_cursors(inside), strict=True)),
        *(KeyPlace("statements", line, line.start) for line in beginning),
    ]


@lru_cache(maxsize=1024)
def statement_rows(text: str) -> frozenset[int]:
    """Return the rows (from 1) on which statements begin, none of a text that does not parse."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt))
