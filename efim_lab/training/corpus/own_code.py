"""Finds the sources of a corpus in a user's own folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from efim_lab.training.corpus.language import CorpusSource

LICENCE = "as its owner decides"


def own_packages(folder: Path, is_wanted: Callable[[str], bool]) -> list[CorpusSource]:
    """Return each folder in a folder as a source, and its loose files as another, of files with wanted paths."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    grouped: dict[str, list[str]] = {}
    for name in filter(is_wanted, names):
        top, inner, _ = name.partition("/")
        grouped.setdefault(top if inner else folder.resolve().name, []).append(name)
    return [CorpusSource(name, "0", LICENCE, folder, tuple(files)) for name, files in grouped.items()]
