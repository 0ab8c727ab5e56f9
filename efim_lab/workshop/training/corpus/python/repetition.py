"""Weighs down what a corpus repeats: a package's imports of itself, and paragraphs of docstrings."""

import ast
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from efim_lab.gate.documents import CodeDocument
from efim_lab.workshop.training.corpus.python.cleanup import parsed

IMPORT_FILES = 50  # where more files of a package import the same of it, about this many keep the line
PARAGRAPH_COPIES = 2  # of a docstring's paragraph in the corpus
_SHORTEST = 50  # characters of a paragraph that counts
_IMPORT = re.compile(r"^(?:from (\.|\w+)[\w.]* import [^(\\\n;]+|import (\w+)[\w.]*)\n", re.MULTILINE)


def without_repetition(learnt: Iterable[CodeDocument]) -> list[CodeDocument]:
    """Return documents in order, without most imports that hundreds of files share, and each paragraph at most twice.

    Only imports of a package within itself are left out: users of the package do not write these.
    """
    found = list(learnt)
    imports = Counter(line for document in found for line in {line for _, line in _own_imports(document)})
    seen = Counter[str]()
    return [CodeDocument(each.path, _thinned(each, imports, seen)) for each in found]


def _thinned(document: CodeDocument, imports: Counter[str], seen: Counter[str]) -> str:
    lines = io.StringIO(document.text).readlines()  # as ast counts them; `splitlines` knows more ends of lines
    dropped = set[int]()
    for row, line in _own_imports(document):
        if _draw(f"{document.path} {line}") > IMPORT_FILES / imports[line]:
            dropped.add(row)
    for rows in _paragraphs(document.text, lines):
        paragraph = " ".join("".join(lines[row] for row in rows).split())
        if len(paragraph) >= _SHORTEST:
            seen[paragraph] += 1
            if seen[paragraph] > PARAGRAPH_COPIES:
                dropped.update(rows)
    return "".join(line for row, line in enumerate(lines) if row not in dropped)


def _own_imports(document: CodeDocument) -> Iterator[tuple[int, str]]:
    """Yield row and name of a file's imports from its own package that stand on a line from its start."""
    distribution, _, path = document.path.partition("/")
    row, at, package = 0, 0, path.partition("/")[0]
    for found in _IMPORT.finditer(document.text):
        row += document.text.count("\n", at, found.start())
        at = found.start()
        if (found[1] or found[2]) in (package, "."):
            yield row, f"{distribution} {found[0]}"


def _paragraphs(text: str, lines: list[str]) -> Iterator[range]:
    """Yield the rows of paragraphs in docstrings, with the blank ones after each; none that holds its quotes."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            match node.body[0]:
                case ast.Expr(value=ast.Constant(value=str()) as docstring):
                    yield from _inner_paragraphs(lines, docstring.lineno, (docstring.end_lineno or 0) - 1)
                case _:
                    pass


def _inner_paragraphs(lines: list[str], row: int, last: int) -> Iterator[range]:
    """Yield the paragraphs between a docstring's first row, before `row`, and its `last`."""
    while row < last and lines[row].strip():  # what the first row begins
        row += 1
    while row < last:
        while row < last and not lines[row].strip():
            row += 1
        begin = row
        while row < last and lines[row].strip():
            row += 1
        while row < last and not lines[row].strip():
            row += 1
        if row < last or not lines[last].strip().strip("'\""):  # the last paragraph may end at the quotes
            yield range(begin, row)


def _draw(text: str) -> float:
    """Return a number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
