"""The other files of a document's package, and what of them helps at a cursor: excerpts to train on."""

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from efim_lab.gate.documents import CodeDocument, package_of

_DEFINITION = re.compile(r"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)
_DECLARED = re.compile(r"[ \t]*(?:async +)?(?:def|class) +\w")
_IMPORT = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]+)", re.MULTILINE)
_NAME = re.compile(r"[^\W\d]\w{2,}")
_TOP_LEVEL = re.compile(r"^[^\s#)\]}]", re.MULTILINE)
_CHUNK_LINES = 12
_DECLARATION_LINES = 12  # a longer one is cut to its first line
_CANDIDATES = 6  # further files whose chunks are compared: all of a large package would take longer than the training
_METHODS = 12  # of a class whose signatures are shown
_DISTRACTING = 0.15  # of the chunks are drawn at random: most retrieved chunks change nothing (arXiv 2403.10059)


class TextExcerpt(NamedTuple):
    """A piece of another file; `path` is relative to its distribution."""

    path: str
    text: str


class PackageFiles:
    """The documents of one distribution, whose folder is `name`."""

    def __init__(self, name: str, documents: Sequence[CodeDocument]) -> None:
        """Take the documents."""
        self.name, self._documents = name, documents

    @cached_property
    def _defined(self) -> dict[str, list[CodeDocument]]:
        """The documents that define each name at their top level."""
        found: dict[str, list[CodeDocument]] = defaultdict(list)
        for document in self._documents:
            for name in dict.fromkeys(_DEFINITION.findall(document.text)):
                found[name].append(document)
        return found

    def definitions(self, document: CodeDocument, window: str) -> list[TextExcerpt]:
        """Return signatures of what a document imports from its package and names in a window, one for each file."""
        used, found = set(_NAME.findall(window)), defaultdict[str, list[str]](list)
        for _module, names in _IMPORT.findall(document.text):
            for name in _NAME.findall(names):
                if name in used and (home := self._home(name, document)):
                    signature = _signature(home.text, name)
                    if signature and signature not in found[home.path]:
                        found[home.path].append(signature)
        return [TextExcerpt(_relative(path), "".join(texts)) for path, texts in found.items() if texts]

    def chunk(self, document: CodeDocument, query: str, rng: random.Random) -> TextExcerpt | None:
        """Return a chunk of another file: the chunk that shares most words with the query, or now and then any."""
        others = [each for each in self._documents if each is not document]
        if not others:
            return None
        others = rng.sample(others, min(_CANDIDATES, len(others)))
        chunks = [TextExcerpt(_relative(each.path), text) for each in others for text in _chunks(each.text)]
        if not chunks or rng.random() < _DISTRACTING:
            return rng.choice(chunks) if chunks else None
        words = set(_NAME.findall(query))

        def shared(chunk: TextExcerpt) -> float:
            own = set(_NAME.findall(chunk.text))
            return len(words & own) / (1 + len(own)) ** 0.5

        return max(chunks, key=shared)

    def _home(self, name: str, document: CodeDocument) -> CodeDocument | None:
        """Return the document nearest in the tree that defines a name, other than the importing document."""
        own = document.path.split("/")

        def distance(other: CodeDocument) -> int:
            parts = other.path.split("/")
            common = sum(a == b for a, b in zip(own, parts, strict=False))
            return len(own) + len(parts) - 2 * common

        others = [each for each in self._defined.get(name, ()) if each is not document]
        return min(others, key=distance, default=None)


class PackageMates(NamedTuple):
    """The other documents in a document's package."""

    package: PackageFiles
    document: CodeDocument

    @property
    def path(self) -> str:
        """The document's path within the distribution."""
        return _relative(self.document.path)

    def excerpts(self, window: str, query: str, rng: random.Random) -> list[TextExcerpt]:
        """Return what may help in a window of the document, near the query's lines: a chunk, then definitions."""
        chunk = self.package.chunk(self.document, query, rng)
        definitions = self.package.definitions(self.document, window)
        rng.shuffle(definitions)
        return [*([chunk] if chunk else []), *definitions]


def by_package(documents: Sequence[CodeDocument]) -> dict[str, PackageFiles]:
    """Return the files of each distribution, by its folder."""
    found: dict[str, list[CodeDocument]] = defaultdict(list)
    for document in documents:
        found[package_of(document)].append(document)
    return {name: PackageFiles(name, files) for name, files in found.items() if name}


def _relative(path: str) -> str:
    return path.partition("/")[2]


def _chunks(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    return ["".join(lines[at : at + _CHUNK_LINES]) for at in range(0, len(lines), _CHUNK_LINES)]


def _signature(text: str, name: str) -> str:
    """Return the lines that declare a top-level function, or a class and its methods; empty if none is found."""
    declared = re.search(rf"^(?:async +)?(?:def|class) +{name}\b", text, re.MULTILINE)
    if not declared:
        return ""
    end = _TOP_LEVEL.search(text, declared.end())
    lines = text[declared.start() : end.start() if end else len(text)].splitlines()
    found = [_declaration(lines, row) for row, line in enumerate(lines) if _DECLARED.match(line)]
    return "".join(found[: 1 + _METHODS])


def _declaration(lines: list[str], row: int) -> str:
    """Return the lines of a declaration from a row on, up to its colon."""
    some = lines[row : row + _DECLARATION_LINES]
    last = next((at for at, line in enumerate(some) if line.rstrip().endswith(":")), 0)
    return "".join(f"{line}\n" for line in some[: last + 1])
