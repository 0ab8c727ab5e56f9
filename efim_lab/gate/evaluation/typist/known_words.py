"""Knows which words stand somewhere: in the file, in the files around it, or in Python's library."""

from __future__ import annotations

import builtins
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from keyword import kwlist, softkwlist
from pathlib import Path

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.evaluation.places.cursors import begun_word
from efim_lab.gate.evaluation.typist.lines import TypedLine

WORD = re.compile(r"[^\W\d]\w*")
_CONTINUATION = re.compile(r"\w+")
_LEFT_OUT = frozenset({"test", "tests", "site-packages", "dist-packages", "idlelib", "lib2to3", "__pycache__"})


class WorkspaceWords:
    """The words of each package's files."""

    def __init__(self, documents: Sequence[CodeDocument]) -> None:
        """Take all documents of the packages; their paths must differ."""
        self._packages: dict[str, list[CodeDocument]] = {}
        for document in documents:
            self._packages.setdefault(package_of(document), []).append(document)
        self._words: dict[str, frozenset[str]] = {}

    def beside(self, document: CodeDocument) -> frozenset[str]:
        """Return the words of the other files of a document's package."""
        files = self._packages.get(package_of(document), [])
        return self.in_any(each for each in files if each.path != document.path)

    def in_any(self, documents: Iterable[CodeDocument]) -> frozenset[str]:
        """Return the words of some documents."""
        return frozenset[str]().union(*map(self._of, documents))

    def _of(self, document: CodeDocument) -> frozenset[str]:
        if document.path not in self._words:
            self._words[document.path] = words_of(document.text)
        return self._words[document.path]


def makes_unknown_word(line: TypedLine, cursor: int, suggested: str, elsewhere: Collection[str] = ()) -> bool:
    """Return whether a suggestion turns the word at the cursor into a word that stands nowhere.

    Words may stand in the typed text or below it, `elsewhere`, or in Python's library.
    """
    text, continued = line.document.text, _CONTINUATION.match(suggested)
    begun = begun_word(line.typed_at(cursor))
    if not begun or continued is None:
        return False
    word = begun + continued[0]
    return not (
        word in elsewhere
        or word in _words(text[: line.start])
        or word in WORD.findall(text[line.start : cursor - len(begun)])
        or word in _words(text[line.line_end :])
        or word in library_words()
    )


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(WORD.findall(text))


@lru_cache(maxsize=1)
def library_words() -> frozenset[str]:
    """Return the keywords, the builtins, the names of the library's modules, and the words in its Python files."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = (each for each in folder.rglob("*.py") if _LEFT_OUT.isdisjoint(each.relative_to(folder).parts))
    texts = (each.read_text(encoding="utf-8", errors="replace") for each in files)
    return frozenset({*kwlist, *softkwlist, *dir(builtins), *sys.stdlib_module_names}).union(*map(words_of, texts))


_words = lru_cache(maxsize=8)(words_of)  # of the text above and below a line
