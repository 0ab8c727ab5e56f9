"""What a file of Python imports, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path


def imports(path: Path, root: Path) -> set[str]:
    """Return every module and name that a file below `root` imports, wherever in the file, as dotted names."""
    return _imported(path.read_text("utf-8"), ".".join(path.relative_to(root).parent.parts))


@cache
def _imported(text: str, package: str) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (above, node.module) if part)
            found |= {f"{module}.{each.name}" for each in node.names}
    return found


def files_of(name: str, root: Path) -> Iterator[Path]:
    """Yield the file of a module, or of the module that a name is in, below `root`."""
    for module in (name, name.rpartition(".")[0]):
        place = root / module.replace(".", "/")
        yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def reached(paths: Iterable[Path], root: Path) -> set[Path]:
    """Return files with all that they import below `root`, however far, and the packages that those lie in."""
    found, left = set[Path](), [*paths]
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        left += (each for name in imports(path, root) for each in files_of(name, root))
        above = (folder / "__init__.py" for folder in path.parents if folder.is_relative_to(root))
        left += (each for each in above if each.is_file())
    return found


def within(module: str, *packages: str) -> bool:
    """Return whether a module or a name in it is one of `packages` or lies in one."""
    return any(module == package or module.startswith(package + ".") for package in packages)
