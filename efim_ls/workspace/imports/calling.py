"""Which files of a workspace call a definition of another file, by imports and folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePath
from typing import NamedTuple, TypeVar

from efim_ls.languages.table import LANGUAGES, family_of, language_of
from efim_ls.text.outline import MEMBERS
from efim_ls.workspace.database.queries import FoundImport
from efim_ls.workspace.files.counts import nearest
from efim_ls.workspace.imports.paths import PACKAGE_FILES, ImportedName, IndexedFiles, is_from, read_import, takes

MOST_CALLING = 64  # files that are read for one look-up, the nearest ones, in some 2 ms each
DEEPEST = 16  # folders within a module of Go
PACKAGE = re.compile(r"^package[ \t]+(\w+)", re.MULTILINE)
MODULE = re.compile(r"^module[ \t]+\"?([^\s\"]+)", re.MULTILINE)

T = TypeVar("T")


class CalledDefinition(NamedTuple):
    """A definition whose calls are looked for: its file, by its real path, and the name that others import.

    `member` is its own name if it is called behind a dot, else empty.
    """

    path: str
    language: str
    text: str
    imported: str
    member: str


class CallingFile(NamedTuple):
    """A file that may call a definition, and the module that it names in front, with the mark between them."""

    path: str
    language: str
    text: str
    module: str


def find_call(
    files: IndexedFiles,
    called: CalledDefinition,
    opened: Mapping[str, str],
    only: str,
    look: Callable[[CallingFile], T | None],
) -> Generator[None, None, T | None]:
    """Look in steps through the files that may call a definition, until one matches; return that.

    Open files come first, by their real paths and with their texts, then the nearest files. If a file is named, no
    other is looked at.
    """
    found = dict[str, list[str]]()
    for path, module in calling_files(files, called):
        found.setdefault(path, []).append(module)
    yield
    near = nearest(found, str(PurePath(called.path).parent))
    order = sorted((path for path in near if path == only or not only), key=lambda path: path not in opened)
    for path in islice(order, MOST_CALLING):
        text = opened[path] if path in opened else files.read(path)
        for module in found[path] if text else ():
            answer = look(CallingFile(path, language_of(path), text or "", module))
            if answer is not None:
                return answer
            yield
    return None


def calling_files(files: IndexedFiles, called: CalledDefinition) -> Iterator[tuple[str, str]]:
    """Yield the files that may call a definition, each with the module that they name in front, empty if none.

    None if another definition could be meant: a member's name is defined once, all others once in the file, and once
    where an import may lead. Files that define the name themselves are left out.
    """
    path, language, _, name, member = called
    if member and [each.path for each in files.source.definitions(member)] != [path]:
        return
    defined = [each for each in files.source.definitions(name) if each.definition.kind not in MEMBERS]
    places = [each.path for each in defined if _family(each.path) == family_of(language)]

    def is_other(other: str) -> bool:
        return other not in (path, *places) and _family(other) == family_of(language) and files.is_shown(other)

    if not files.is_shown(path):
        return
    form = LANGUAGES[language].imports
    if form and form.modules == "package paths":
        yield from _in_go(files, called, places, is_other)
    elif places.count(path) == 1:
        yield from _importing(files, called, set(places) - {path}, is_other)


def _importing(
    files: IndexedFiles, called: CalledDefinition, others: Collection[str], is_other: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """Yield the files that import a name or its module, from its file or from a package that takes it in."""
    path, language, _, name, _ = called
    sources = [path]
    for each in files.source.importing(name):
        if not takes(each.imported, each.path, name, path):
            continue
        if any(takes(each.imported, each.path, name, other) for other in others):
            continue
        if is_other(each.path):
            yield each.path, ""
        if PurePath(each.path).stem == "__init__":
            sources.append(each.path)
    form = LANGUAGES[language].imports
    mark = form.behind_modules if form else ""
    for source in sources if mark else ():
        for each in files.source.importing(module := _module_name(source)):
            written = _module(each, module, source)
            if written and is_other(each.path) and not any(_module(each, module, other) for other in others):
                yield each.path, written + mark


def _module(found: FoundImport, name: str, place: str) -> str:
    """Return how the code below an import writes a module of this name in a place; empty if it is another module."""
    above, parts, names = read_import(found.imported, found.path)
    if not names and parts[-1:] == (name,) and is_from(place, ImportedName(name, parts, above)):
        return found.imported.module
    return name if name in names and is_from(place, ImportedName(name, (*parts, name), above)) else ""


def _module_name(path: str) -> str:
    place = PurePath(path)
    return place.parent.name if place.stem in PACKAGE_FILES else place.stem


def _in_go(
    files: IndexedFiles, called: CalledDefinition, places: Collection[str], is_other: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """Yield the files of a definition's folder and, if they can see it, those that import the package there."""
    path, _, text, name, member = called
    folder = os.path.dirname(path)
    if not member and sum(os.path.dirname(each) == folder for each in places) != 1:
        return
    yield from ((each, "") for each in files.paths if os.path.dirname(each) == folder and is_other(each))
    package, module = PACKAGE.search(text), _go_path(folder)
    if package and module and (member or name)[:1].isupper():
        for each in files.source.importing(module):
            if each.imported.module == module and is_other(each.path):
                yield each.path, f"{package[1]}."


def _go_path(folder: str) -> str:
    """Return the path by which the package in a folder is imported; empty if no file says so."""
    for above in (PurePath(folder), *PurePath(folder).parents[:DEEPEST]):
        try:
            said = MODULE.search(Path(above, "go.mod").read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        inside = PurePath(folder).relative_to(above).as_posix()
        return "" if said is None else said[1] if inside == "." else f"{said[1]}/{inside}"
    return ""


def _family(path: str) -> str:
    return family_of(language_of(path))
