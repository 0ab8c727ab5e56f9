"""The files of a workspace as imports see them, and where imports lead, by their text and the paths of files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple, Protocol

from efim_ls.languages.forms.language import Import
from efim_ls.text.outline import Outline
from efim_ls.workspace.database.queries import FoundDefinition, FoundImport

PACKAGE_FILES = frozenset({"__init__", "index", "lib", "main", "mod"})  # stand for the folder that they are in
WORD = re.compile(r"\w+")


class DefinitionSource(Protocol):
    """What can be asked about definitions: an index file, or one with open documents in place of their files."""

    def definitions(self, name: str, /) -> Sequence[FoundDefinition]:
        """Return all definitions of a name, sorted by path and line."""
        ...

    def outline(self, path: str, /) -> Outline | None:
        """Return the outline of a file, None if it is not known."""
        ...


class ImportSource(DefinitionSource, Protocol):
    """What files define and import."""

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


class ReferringFile(NamedTuple):
    """The text of an open document that refers to names elsewhere, with its real path."""

    path: str
    language: str
    text: str


class ImportedName(NamedTuple):
    """A name, the folders and the file that its import names, and the folder they are in.

    `above` is None if the import does not begin at the importing file's own folder.
    """

    name: str
    parts: tuple[str, ...]
    above: str | None = None


def read_import(each: Import, path: str) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """Return the folder that an import begins in if it says so, the parts of its module, and the names it lists."""
    module, names = each.module, tuple(name for name in each.names if name != "*")
    folder, levels = PurePath(path).parent, 0
    if module.startswith(".") and "/" not in module:  # Python
        levels = len(module) - len(module.lstrip("."))
        parts = tuple(filter(None, module.split(".")))
    elif module.startswith("."):  # JavaScript and TypeScript
        steps = module.split("/")
        levels = 1 + steps.count("..")
        parts = tuple(PurePath(step).stem if step == steps[-1] else step for step in steps if step not in (".", ".."))
    elif "::" in module:  # Rust
        outer, _, inner = module.partition("{")
        words = [word for word in WORD.findall(outer) if word not in ("crate", "self", "super")]
        names = tuple(WORD.findall(inner)) or tuple(words[-1:])
        parts = tuple(words if inner else words[:-1])
    elif "/" in module:  # Go, and what a build tool resolves: only the last step is a folder for sure
        parts = (PurePath(module).name,)
    elif "\\" in module:  # PHP, where some folder stands for the first names
        parts = tuple(filter(None, module.split("\\")))[1:]
    else:
        parts = tuple(module.split("."))
    if not levels:
        return None, parts, names
    return str(folder.joinpath(*[".."] * (levels - 1))), parts, names


def takes(each: Import, path: str, name: str, place: str) -> bool:
    """Return whether a file's import takes a name from the file that defines it, or from the package around that."""
    above, parts, names = read_import(each, path)
    return name in names and is_from(place, ImportedName(name, parts, above))


def is_from(file: str, wanted: ImportedName) -> bool:
    """Return whether an import names a file, or the folder of the file."""
    place = PurePath(file)
    parts = place.parts[:-1] if place.stem in PACKAGE_FILES else (*place.parts[:-1], place.stem)
    if wanted.above is not None:
        here = (*PurePath(os.path.normpath(wanted.above)).parts, *wanted.parts)
        return parts[: len(here)] == here
    size = len(wanted.parts)
    return any(parts[at : at + size] == wanted.parts for at in range(len(parts) - size, -1, -1)) if size else True
