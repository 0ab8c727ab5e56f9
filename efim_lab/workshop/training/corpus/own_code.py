"""Finds the sources of a corpus in a folder of a fetched package, or in a user's own folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.corpus.language import CorpusSource, Found, Splits

LICENCE = "as its owner decides"


def sources_in(
    folder: Path,
    splits: Splits,
    language: str,
    package: Callable[[Path], Found | None],
    is_wanted: Callable[[str], bool],
) -> list[Found]:
    """List the sources in a folder: the `package` that it is or, if it is none, the user's own folders in it."""
    if not folder.is_dir():
        raise WorkError(f"{folder} is not a folder: name one with {language} files")
    found = package(folder)
    return splits.admitted([found] if found else own_packages(folder, is_wanted))


def own_packages(folder: Path, is_wanted: Callable[[str], bool]) -> list[CorpusSource]:
    """Return each folder in a folder as a source, and its loose files as another, of files with wanted paths."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    grouped: dict[str, list[str]] = {}
    for name in filter(is_wanted, names):
        top, inner, _ = name.partition("/")
        grouped.setdefault(top if inner else folder.resolve().name, []).append(name)
    return [CorpusSource(name, "0", LICENCE, folder, tuple(files)) for name, files in grouped.items()]
