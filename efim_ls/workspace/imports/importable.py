"""How a file would import a name that the workspace defines once: as other files do, or as its place says."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from os.path import commonprefix
from pathlib import PurePath

from efim_ls.languages.forms.language import Import
from efim_ls.languages.table import LANGUAGES, family_of, language_of
from efim_ls.text.outline import MEMBERS, Importable, outline
from efim_ls.workspace.database.queries import FoundImport
from efim_ls.workspace.imports.paths import (
    PACKAGE_FILES,
    ImportSource,
    IndexedFiles,
    ReferringFile,
    read_import,
    takes,
)

SCRIPT_ENDINGS = frozenset({".cjs", ".js", ".jsx", ".mjs", ".ts", ".tsx"})  # that some files write behind a module
DEEPEST = 8  # packages within one another
PACKAGE = re.compile(r"^(?:package|namespace)[ \t]+([\w.\\]+)", re.MULTILINE)  # as a file says that it is in
BY_PLACE = frozenset({"class", "function"})  # kinds that can be imported although no other file does
NEVER_IMPORTED = frozenset({"conftest.py", "setup.py"})

Parts = tuple[str, ...]


def python_module(
    path: str, imports: Sequence[Import], place: str, written: Sequence[FoundImport], is_public: bool
) -> str:
    """Return what a Python file writes for the module of a definition at a place; empty if that is unknown.

    It is the module from which most near files import the definition: from outside of its package, files outside
    count, too, or a package that takes the name in. Without any, it is the file's own module if that `is_public`.
    Within one package it is relative if this file's other imports are or, without any, if most other files' are.
    """
    own, top = _package_parts(path), _package_parts(place)[:1]
    outside = own[:1] != top
    alike = [each for each in written if (_package_parts(each.path)[:1] != top) == outside]
    found = Counter(_python_parts(each) for each in _nearest(path, alike))
    packages = [_package_parts(each.path) for each in written if PurePath(each.path).stem == "__init__"]
    if found:
        parts = found.most_common(1)[0][0]
    elif outside and packages:
        parts = min(packages, key=len)
    elif is_public and ((not outside and top) or PurePath(place).parent == PurePath(path).parent):
        parts = _module_parts(place)
    else:
        return ""
    if not own or parts[:1] != own[:1] or not _is_relative(imports, written, own[0]):
        return ".".join(parts)
    shared = len(commonprefix([own, parts]))
    return "." * (len(own) - shared + 1) + ".".join(parts[shared:])


def script_module(path: str, written: Sequence[FoundImport]) -> str:
    """Return what a file in JavaScript or TypeScript writes for a module, as most near it do; empty without any."""
    found = Counter(_script_target(each) for each in _nearest(path, written))
    if not found:
        return ""
    (target, ending), _ = found.most_common(1)[0]
    if not os.path.isabs(target):
        return target
    way = os.path.relpath(target, PurePath(path).parent).replace(os.sep, "/")
    return (way if way.startswith(".") else f"./{way}") + ending


def rust_module(path: str, written: Sequence[FoundImport]) -> str:
    """Return what a file in Rust writes before a name, as most others of its crate do; empty without any."""
    found = Counter(
        module
        for each in written
        if (module := _rust_path(each.imported.module)).partition("::")[0] not in ("self", "super")
        and (not module.startswith("crate") or _crate(each.path) == _crate(path))
    )
    return found.most_common(1)[0][0] if found else ""


def package_of_name(path: str, text: str, written: Sequence[FoundImport]) -> str:
    """Return the package from which most files near a file import a name; empty without any, or if it is its own."""
    found = Counter(each.imported.module for each in _nearest(path, written))
    package = found.most_common(1)[0][0] if found else ""
    own = PACKAGE.search(text)
    return "" if own and package.strip("\\") == own[1] else package


def _nearest(path: str, written: Sequence[FoundImport]) -> list[FoundImport]:
    """Return the imports of those files that are nearest to one, by the folders that they share."""
    shared = [len(commonprefix([PurePath(each.path).parent.parts, PurePath(path).parent.parts])) for each in written]
    return [each for each, folders in zip(written, shared, strict=True) if folders == max(shared)]


def _python_parts(found: FoundImport) -> Parts:
    """Return the names of an imported module, from the top package on if it is written as relative."""
    above, parts, _ = read_import(found.imported, found.path)
    return parts if above is None else (*_package_parts(os.path.normpath(os.path.join(above, "_"))), *parts)


def _is_relative(imports: Sequence[Import], written: Sequence[FoundImport], top: str) -> bool:
    """Return whether a file imports from its own package by relative modules."""
    for modules in ([each.module for each in imports], [each.imported.module for each in written]):
        relative = sum(each.startswith(".") for each in modules)
        absolute = sum(each.partition(".")[0] == top for each in modules)
        if relative or absolute:
            return relative > absolute
    return False


def _module_parts(path: str) -> Parts:
    stem = PurePath(path).stem
    return _package_parts(path) + (() if stem in PACKAGE_FILES else (stem,))


def _package_parts(path: str) -> Parts:
    """Return the names of the packages around a file, the outermost first; inner ones may have no source."""
    above = PurePath(path).parents[:DEEPEST]
    top = next((n for n in range(len(above) - 1, -1, -1) if os.path.exists(above[n] / "__init__.py")), -1)
    return tuple(folder.name for folder in reversed(above[: top + 1]))


def _script_target(found: FoundImport) -> tuple[str, str]:
    """Return where an import leads, a path if it is relative, and the ending that it writes there."""
    module = found.imported.module
    if not module.startswith("."):
        return module, ""
    ending = PurePath(module).suffix
    ending = ending if ending in SCRIPT_ENDINGS else ""
    place = os.path.join(PurePath(found.path).parent, module.removesuffix(ending))
    return os.path.normpath(place), ending


def _rust_path(module: str) -> str:
    """Return the path before the names of a use declaration."""
    outer, braces, _ = module.partition("{")
    return outer.removesuffix("::") if braces else outer.rpartition("::")[0]


def _crate(path: str) -> str:
    """Return the folder of the crate that a file belongs to; empty if there is none."""
    above = (each for each in PurePath(path).parents if os.path.exists(each / "Cargo.toml"))
    return str(next(above, ""))


def find_imports(
    files: IndexedFiles, file: ReferringFile, names: Sequence[str]
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
    source: ImportSource, file: ReferringFile, imports: Sequence[Import], name: str, is_shown: Callable[[str], bool]
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
