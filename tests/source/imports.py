"""What a file of Python imports, read without running it."""

from __future__ import annotations

import ast
from pathlib import Path


def imports(path: Path, root: Path) -> set[str]:
    """Return every module and name that a file below `root` imports, wherever in the file, as dotted names."""
    package, found = ".".join(path.relative_to(root).parent.parts), set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (above, node.module) if part)
            found |= {f"{module}.{each.name}" for each in node.names}
    return found


def within(module: str, *packages: str) -> bool:
    """Return whether a module or a name in it is one of `packages` or lies in one."""
    return any(module == package or module.startswith(package + ".") for package in packages)
