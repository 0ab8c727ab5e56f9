"""How a file would import a name that the workspace defines once: as other files do, or as its place says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple, Protocol

from efim_ls.languages import family_of, language_of
from efim_ls.text.outline import MEMBERS, Import, Importable
from efim_ls.workspace.database.queries import FoundDefinition, FoundImport
from efim_ls.workspace.imports.modules import python_module, rust_module, script_module
from efim_ls.workspace.imports.paths import ImportedName, is_from, read_import

BY_PLACE = frozenset({"class", "function"})  # kinds that can be imported although no other file does
NEVER_IMPORTED = frozenset({"conftest.py", "setup.py"})


class ImportSource(Protocol):
    """What can be asked about the files of a workspace."""

    def definitions(self, name: str, /) -> Sequence[FoundDefinition]:
        """Return all definitions of a name, sorted by path and line."""
        ...

    def importing(self, word: str, /) -> Sequence[FoundImport]:
        """Return the imports that have a word in them, sorted by path."""
        ...


class ImportingFile(NamedTuple):
    """The file that lacks an import: its real path, its language and its text."""

    path: str
    language: str
    text: str


def find_importable(
    source: ImportSource, file: ImportingFile, imports: Sequence[Import], name: str, is_shown: Callable[[str], bool]
) -> Importable | None:
    """Return how a file with these imports would import a name; None unless one other file defines it.

    If several do, it is the one that other files import it from. In Go the name is a package's: then all other
    files must import it from one path.
    """
    family = family_of(file.language)

    def is_other(path: str) -> bool:
        return path != file.path and family_of(language_of(path)) == family and is_shown(path)

    written = [each for each in source.importing(name) if is_other(each.path)]
    if family == "go":
        return _package(name, written)
    found = [each for each in source.definitions(name) if each.definition.kind not in MEMBERS]
    places = {each.path: list[FoundImport]() for each in found if family_of(language_of(each.path)) == family}
    if file.path in places:
        return None
    for place, named in places.items():
        named += (each for each in written if _takes(each, name, place))
    imported = {place: named for place, named in places.items() if named}
    if len(chosen := imported if len(places) > 1 else places) != 1:
        return None
    ((place, named),) = chosen.items()
    if not is_other(place) or PurePath(place).name in NEVER_IMPORTED:
        return None
    module = ""
    if family == "python":
        is_public = all(each.definition.kind in BY_PLACE for each in found if each.path == place)
        module = python_module(file.path, imports, place, named, is_public)
    elif family == "javascript":
        module = script_module(file.path, named)
    elif family == "rust":
        module = rust_module(file.path, named)
    return Importable(module, name, len({each.path for each in named})) if module else None


def _takes(found: FoundImport, name: str, place: str) -> bool:
    """Return whether an import takes a name from the file that defines it, or from the package around that."""
    above, parts, names = read_import(found.imported, found.path)
    return name in names and is_from(place, ImportedName(name, parts, above))


def _package(name: str, written: Iterable[FoundImport]) -> Importable | None:
    paths = Counter(each.imported.module for each in written if PurePath(each.imported.module).name == name)
    if len(paths) != 1:
        return None
    ((path, count),) = paths.items()
    return Importable(path, "", count)
