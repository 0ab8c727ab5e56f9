"""A Python file as its syntax tree and its tokens, with places as offsets in code points."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from efim_lab.gate.documents import CodeDocument

LAYOUT = frozenset({tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER})


@dataclass(frozen=True)
class CodeToken:
    """A token of a file from offset `start` to `end`; `kind` is its type in Python's tokenize."""

    kind: int
    text: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether it is an identifier."""
        return self.kind == tokenize.NAME and not keyword.iskeyword(self.text)


class PythonSource:
    r"""A Python file whose lines end in \n: rows count from 0, offsets in code points."""

    def __init__(self, document: CodeDocument, tree: ast.Module, tokens: list[tokenize.TokenInfo]) -> None:
        """Take a document with its tree and all of its tokens; `parse` makes both."""
        self.document, self.tree = document, tree
        self._lines = document.text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._tokens = tokens

    @classmethod
    def parse(cls, document: CodeDocument) -> PythonSource | None:
        """Read a document, or return None if it is not Python of this version."""
        try:
            with warnings.catch_warnings(action="ignore"):  # of invalid escapes in others' strings
                tree = ast.parse(document.text)
            tokens = list(tokenize.generate_tokens(io.StringIO(document.text).readline))
        except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
            return None
        return cls(document, tree, tokens)

    @property
    def rows(self) -> int:
        """The number of lines."""
        return len(self._lines)

    def line(self, row: int) -> str:
        """Return a line without its line break."""
        return self._lines[row]

    def start(self, row: int) -> int:
        """Return the offset of a line's first character."""
        return self._starts[row]

    def end(self, row: int) -> int:
        """Return the offset of a line's break, or of the text's end."""
        return self._starts[row] + len(self._lines[row])

    def offset(self, row: int, column: int) -> int:
        """Return the offset of a place as syntax trees give it: rows count from 1, columns in bytes of UTF-8."""
        return self._starts[row - 1] + len(self._lines[row - 1].encode()[:column].decode(errors="ignore"))

    def end_of(self, node: ast.expr) -> int:
        """Return the offset where an expression ends; an attribute ends with its name."""
        return self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    @cached_property
    def by_row(self) -> dict[int, list[CodeToken]]:
        """The tokens that begin in each row, without layout and comments; rows without any are missing."""
        found: dict[int, list[CodeToken]] = {}
        for token in self._tokens:
            if token.type not in LAYOUT and token.type != tokenize.COMMENT:
                start, end = (self._starts[row - 1] + column for row, column in (token.start, token.end))
                found.setdefault(token.start[0] - 1, []).append(CodeToken(token.type, token.string, start, end))
        return found

    @cached_property
    def whole_rows(self) -> frozenset[int]:
        """The rows in which a logical line ends that began there: a statement, or the header of a compound one."""
        found, begun = set[int](), -1
        for token in self._tokens:
            if token.type == tokenize.NEWLINE:
                found |= {begun} if begun == token.start[0] - 1 else set()
                begun = -1
            elif begun < 0 and token.type not in LAYOUT and token.type != tokenize.COMMENT:
                begun = token.start[0] - 1
        return frozenset(found)

    @cached_property
    def import_rows(self) -> frozenset[int]:
        """The rows of import statements."""
        return frozenset(row for node in self.imports for row in range(node.lineno - 1, node.end_lineno or 0))

    @cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """All import statements, in functions as well."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
