"""What can be asked about the files of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from efim_ls.workspace.database.queries import FoundDefinition, FoundImport


class ImportSource(Protocol):
    """What files define and import."""

    def definitions(self, name: str, /) -> Sequence[FoundDefinition]:
        """Return all definitions of a name, sorted by path and line."""
        ...

    def importing(self, word: str, /) -> Sequence[FoundImport]:
        """Return the imports that have a word in them, sorted by path."""
        ...


class IndexedFiles(NamedTuple):
    """The files of a workspace: definitions and imports, paths, which may be shown, and text on disk.

    `read` returns None where a file may not be read, or is none.
    """

    source: ImportSource
    paths: Iterable[str]
    is_shown: Callable[[str], bool]
    read: Callable[[str], str | None]
