"""How a file would import a name that the workspace defines once: as other files do, or as its place says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from efim_ls.languages.forms.language import Import
from efim_ls.languages.table import LANGUAGES, family_of, language_of
from efim_ls.text.outline import MEMBERS, Importable, outline
from efim_ls.workspace.database.queries import FoundImport
from efim_ls.workspace.imports.files import ImportSource, IndexedFiles
from efim_ls.workspace.imports.modules import package_of_name, python_module, rust_module, script_module
from efim_ls.workspace.imports.paths import takes

BY_PLACE = frozenset({"class", "function"})  # kinds that can be imported although no other file does
NEVER_IMPORTED = frozenset({"conftest.py", "setup.py"})


class ImportingFile(NamedTuple):
    """The file that lacks an import: its real path, its language and its text."""

    path: str
    language: str
    text: str


def find_imports(
    files: IndexedFiles, file: ImportingFile, names: Sequence[str]
) -> Generator[None, None, list[Importable]]:
    """Find, in small steps, imports for the names a file uses but does not define."""
    found, imports = list[Importable](), outline(file.text, file.language).imports
    yield
    for name in names:
        if each := find_importable(files.source, file, imports, name, files.is_shown):
            found.append(each)
        yield
    return found


def find_importable(
    source: ImportSource, file: ImportingFile, imports: Sequence[Import], name: str, is_shown: Callable[[str], bool]
) -> Importable | None:
    """Return how a file with these imports would import a name; None unless one other file defines it.

    If several do, it is the file that other files import it from. In Go the name is a package's: then all other
    files must import it from one path.
    """
    family = family_of(file.language)

    def is_other(path: str) -> bool:
        return path != file.path and family_of(language_of(path)) == family and is_shown(path)

    written = [each for each in source.importing(name) if is_other(each.path)]
    form = LANGUAGES[file.language].imports
    if form is None:
        return None
    if form.modules == "package paths":
        return _package(name, written)
    found = [each for each in source.definitions(name) if each.definition.kind not in MEMBERS]
    places = {each.path: list[FoundImport]() for each in found if family_of(language_of(each.path)) == family}
    if file.path in places:
        return None
    for place, named in places.items():
        named += (each for each in written if takes(each.imported, each.path, name, place))
    imported = {place: named for place, named in places.items() if named}
    if len(chosen := imported if len(places) > 1 else places) != 1:
        return None
    ((place, named),) = chosen.items()
    if not is_other(place) or PurePath(place).name in NEVER_IMPORTED:
        return None
    module = ""
    if form.modules == "packages":
        is_public = all(each.definition.kind in BY_PLACE for each in found if each.path == place)
        module = python_module(file.path, imports, place, named, is_public)
    elif form.modules == "files":
        module = script_module(file.path, named)
    elif form.modules == "crates":
        module = rust_module(file.path, named)
    elif form.modules == "package names":
        module = package_of_name(file.path, file.text, named)
    return Importable(module, name, len({each.path for each in named})) if module else None


def _package(name: str, written: Iterable[FoundImport]) -> Importable | None:
    paths = Counter(each.imported.module for each in written if PurePath(each.imported.module).name == name)
    if len(paths) != 1:
        return None
    ((path, count),) = paths.items()
    return Importable(path, "", count)
