"""Finds in a Python file the uses of names that come from other files of its project, by its imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from efim_lab.studies.repository.syntax import PythonSource

PACKAGE_FILE = "__init__.py"
Chain = ast.Name | ast.Attribute


@dataclass(frozen=True)
class ProjectUse:
    """A use of a name that another file of the project defines: its dotted `name` as written, and its last part.

    That part, the name that the reader of this file alone cannot know, begins at offset `start` and is `last`.
    """

    name: str
    last: str
    start: int


class ProjectModules:
    """The modules of a project by their dotted names, and the names that they define.

    A module's name begins at the highest folder above it from which on all folders have an `__init__.py`.
    """

    def __init__(self, sources: Sequence[PythonSource]) -> None:
        """Take all Python files of the project."""
        paths = [PurePosixPath(source.document.path) for source in sources]
        self._packages = {path.parent for path in paths if path.name == PACKAGE_FILE}
        self._names = {self._parts(path) for path in paths}
        self.defined = frozenset(name for source in sources for name in defined_names(source.tree))

    def __contains__(self, name: tuple[str, ...]) -> bool:
        """Return whether the project has a module of this name, given in parts."""
        return name in self._names

    def package(self, path: str) -> tuple[str, ...]:
        """Return the package that relative imports of a file begin at, in parts."""
        place = PurePosixPath(path)
        parts = self._parts(place)
        return parts if place.name == PACKAGE_FILE else parts[:-1]

    def _parts(self, path: PurePosixPath) -> tuple[str, ...]:
        inside = list[str]()
        for folder in path.parents:
            if folder not in self._packages:
                break
            inside.insert(0, folder.name)
        return (*inside,) if path.name == PACKAGE_FILE else (*inside, path.stem)


def project_uses(source: PythonSource, modules: ProjectModules) -> list[ProjectUse]:
    """Return the uses of names that the project's other files define, in the order of the text.

    Of an imported module, its members are used; of anything else, the name itself and the attributes read from it, if
    the project defines such a name. A local name that is bound to anything else in the file, in whatever scope, is
    left out, and so are star imports.
    """
    bound = _bound(source, modules)
    found = (_use(source, node, bound, modules) for node in ast.walk(source.tree) if isinstance(node, Chain))
    return sorted((use for use in found if use), key=lambda use: use.start)


def _bound(source: PythonSource, modules: ProjectModules) -> dict[str, tuple[str, ...]]:
    """Return the local names that mean a module or a member of one, always the same, with its name in parts."""
    origins: dict[str, set[tuple[str, ...]]] = {}
    for name, origin in _imported(source, modules):
        origins.setdefault(name, set()).add(origin)
    others = set(_assigned(source.tree))
    single = {name: next(iter(found)) for name, found in origins.items() if len(found) == 1 and name not in others}
    return {name: origin for name, origin in single.items() if _is_ours(origin, modules)}


def _is_ours(origin: tuple[str, ...], modules: ProjectModules) -> bool:
    """Return whether a name in parts is a module of the project, a package of its modules, or a member of one."""
    return origin in modules or origin[:-1] in modules


def _imported(source: PythonSource, modules: ProjectModules) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every local name that an import binds, with its full name in parts."""
    package = modules.package(source.document.path)
    for node in source.imports:
        if isinstance(node, ast.Import):
            for each in node.names:
                parts = tuple(each.name.split("."))
                yield (each.asname, parts) if each.asname else (parts[0], parts[:1])
            continue
        above = package[: len(package) - node.level + 1] if node.level else ()
        module = (*above, *(node.module.split(".") if node.module else ()))
        for each in node.names:
            if each.name != "*":
                yield each.asname or each.name, (*module, each.name)


def _assigned(tree: ast.Module) -> Iterator[str]:
    """Yield every name that the file binds by other means than imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a file defines: functions, classes, attributes, and variables of modules and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        if isinstance(node, ast.Module | ast.ClassDef):
            yield from _stored(node.body)


def definition_places(source: PythonSource) -> set[int]:
    """Return the offsets of names where they are defined or assigned rather than used."""
    stored = (node for node in ast.walk(source.tree) if isinstance(node, Chain) and isinstance(node.ctx, ast.Store))
    ends = ((source.end_of(node), node.attr if isinstance(node, ast.Attribute) else node.id) for node in stored)
    named = {end - len(name) for end, name in ends}
    for tokens in source.by_row.values():
        named |= {name.start for word, name in pairwise(tokens) if word.text in ("def", "class")}
    return named


def _stored(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the variables that some statements assign, in their own scope and not deeper than one statement."""
    for statement in statements:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
            yield from (node.id for node in names if isinstance(node.ctx, ast.Store))


def _use(
    source: PythonSource, node: Chain, bound: dict[str, tuple[str, ...]], modules: ProjectModules
) -> ProjectUse | None:
    """Return the use that a name or an attribute is, or None."""
    first, *rest = _parts(node)
    if (origin := bound.get(first)) is None:
        return None
    meaning = (*origin, *rest)
    is_member = meaning[:-1] in modules or (meaning[:-2] in modules and meaning[:-1] not in modules)
    if meaning in modules or not is_member or meaning[-1] not in modules.defined:
        return None
    last = (first, *rest)[-1]
    start = source.end_of(node) - len(last)
    is_there = source.document.text.startswith(last, start)  # places inside of formatted texts can be wrong
    return ProjectUse(".".join((first, *rest)), last, start) if is_there else None


def _parts(node: ast.expr) -> list[str]:
    """Return the names in a chain of attributes of a name; of any other expression, one empty name."""
    parts = list[str]()
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) else [""]
