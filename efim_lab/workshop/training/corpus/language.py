"""What gathering a corpus must know of a language, and the packages that its files come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from efim_lab.gate.documents import CodeDocument

Part = Literal["train", "tuning", "heldout"]


def folder_of(name: str, version: str) -> str:
    """Return where a package's documents lie in a corpus: one folder, although names may have slashes."""
    return f"{name.replace('/', '.')}-{version}"


class CorpusSource(NamedTuple):
    """A package to read; `files` are its code files relative to `root`, sorted."""

    name: str
    version: str
    licence: str
    root: Path
    files: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Where its documents lie in a corpus."""
        return folder_of(self.name, self.version)


class RefusedPackage(NamedTuple):
    """A package left out because of the licence it states, or because other measurements use it."""

    name: str
    version: str
    licence: str


Found = CorpusSource | RefusedPackage


class Splits(NamedTuple):
    """The packages that are not trained on, by name: each written to the part named, or to none if `measured`.

    `covers` tells whether a listed name stands for a package.
    """

    apart: Mapping[Part, frozenset[str]]
    measured: frozenset[str]
    covers: Callable[[str, str], bool]

    def part_of(self, name: str) -> Part | None:
        """Return the part that a package's files are written to, None if to none."""
        for part, listed in self.apart.items():
            if any(self.covers(each, name) for each in listed):
                return part
        return None if any(self.covers(each, name) for each in self.measured) else "train"

    def admitted(self, found: Iterable[Found]) -> list[Found]:
        """Return the sources found, refused where other measurements use them, wherever they come from."""
        return [
            each if self.part_of(each.name) else RefusedPackage(each.name, each.version, each.licence)
            for each in found
        ]

    def is_learnt(self, name: str) -> bool:
        """Return whether a package may be trained on."""
        return self.part_of(name) == "train"


def no_snippets(text: str) -> Iterable[str]:
    """Return nothing: the documentation in many languages shows no programs in a form that is easy to find."""
    return ()


class CorpusLanguage(NamedTuple):
    r"""A language as a corpus knows it: where to get its code, and which of it to train on.

    `name` is LSP's, and `known` are LSP's names of the languages that a model of this corpus knows. `fetch` downloads
    the listed packages to a new folder, and `fetched` lists the packages that it wrote. `found_in` lists the sources
    of a folder. Texts have lines that end with \n: `looks_written` judges one, `without_notices` drops notices of
    copyright at its start, `clean` drops all that a model should not repeat, and `snippets` yields the examples in
    its documentation. `thinned` weighs down what documents repeat, and `folders` returns the folders to read if none
    is named.
    """

    name: str
    title: str
    known: tuple[str, ...]
    splits: Splits
    fetch: Callable[[Path], Sequence[Path]]
    fetched: Callable[[Path], Sequence[Path]]
    found_in: Callable[[Path], Sequence[Found]]
    looks_written: Callable[[str], bool]
    without_notices: Callable[[str], str]
    clean: Callable[[str], str]
    snippets: Callable[[str], Iterable[str]]
    thinned: Callable[[Iterable[CodeDocument]], list[CodeDocument]] = list[CodeDocument]
    folders: Callable[[], Sequence[Path]] = list[Path]
