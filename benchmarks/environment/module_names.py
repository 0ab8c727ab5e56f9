"""The cost of an environment's module names, and how often they are right about code that runs.

`python -m benchmarks.environment.module_names [FOLDER]` reads the environment of a workspace, by default this
clone's. It does so twice: once the part that the workspace's own files refer to, and once for one document that
imports every installed module. It also looks up each attribute in the workspace's files: attributes that the table
does not allow are its mistakes.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

import psutil

from benchmarks.table import show
from efim_ls.request import Names
from efim_ls.workspace.modules.document import imports_of
from efim_ls.workspace.modules.environment import Environment, find_environment
from efim_ls.workspace.modules.names import Target
from efim_ls.workspace.modules.table import ModuleTable

ROOT = Path(__file__).parents[2]
SKIPPED = frozenset({".venv", "venv", "node_modules", "build", ".git"})
MOST_FILES, LONG = 300, 600.0
KEYS = 2_000


def measure(folder: Path) -> dict[str, float]:
    """Return costs of the environment of a folder, and counts of known names in its files."""
    environment = find_environment([folder])
    files = [path for path in sorted(folder.rglob("*.py")) if SKIPPED.isdisjoint(path.relative_to(folder).parts)]
    texts = {str(path): path.read_text("utf-8", "replace") for path in files[:MOST_FILES]}
    table = ModuleTable(lambda: environment)
    result = {"workspace_files": len(texts), **_costs(table, texts, "workspace")}
    result |= _answers(table, texts)
    result["us_per_key"] = _key(table, max(texts.values(), key=len))
    everything = "\n".join(f"import {name}" for name in sorted(environment.places()) if name[0] != "_")
    result |= {"packages": _packages(environment)} | _costs(
        ModuleTable(lambda: environment), {"": everything}, "everything"
    )
    show(f"Names of modules, {folder.name}", ("", ""), result.items())
    return result


def _costs(table: ModuleTable, texts: dict[str, str], name: str) -> dict[str, float]:
    began, own, memory = perf_counter(), process_time(), _memory()
    for path, text in texts.items():
        table.want(path, text)
    table.wait(LONG)
    return {
        f"{name}_modules": table.modules,
        f"{name}_cpu_s": table.seconds + process_time() - own,
        f"{name}_own_cpu_s": process_time() - own,
        f"{name}_s": perf_counter() - began,
        f"{name}_mib": table.size / (1 << 20),
        f"{name}_rss_mib": (_memory() - memory) / (1 << 20),
        f"{name}_disk_bytes": 0,
    }


def _memory() -> int:
    return psutil.Process().memory_info().rss


def _packages(environment: Environment) -> int:
    """Count the distributions that are installed."""
    return sum(1 for folder in environment.installed for _ in Path(folder).glob("*.dist-info"))


def _answers(table: ModuleTable, texts: dict[str, str]) -> dict[str, float]:
    """Count what the table says about the attributes in texts, all of which are taken to be there."""
    counts = Counter[str](unknown=0, open=0, known=0, mistaken=0)
    for text in texts.values():
        for names, attribute in _attributes(table, text):
            if names is None:
                counts["unknown"] += 1
            elif names.is_open:
                counts["open"] += 1
            else:
                counts["known" if names.may_have(attribute) else "mistaken"] += 1
    return {f"attributes_{name}": count for name, count in counts.items()}


def _attributes(table: ModuleTable, text: str) -> Iterator[tuple[Names | None, str]]:
    """Yield each attribute of what a text imports, and the names that are said to be there."""
    bound, modules = imports_of(text).bound, table.view.modules
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            first, *path = ast.unparse(node.value).split(".")
            if source := bound.get(first):
                start = [source[1], *path] if source[1] else path
                target = modules.follow(Target(source[0]), start)
                yield (modules.attributes(target) if target else None), node.attr


def _key(table: ModuleTable, text: str) -> float:
    """Return the microseconds that a key at the end of a text costs, once the text's imports are known."""
    text += "\nos.path.jo"
    table.view.expected("", text, len(text))
    began = process_time()
    for _ in range(KEYS):
        table.view.expected("", text, len(text))
    return (process_time() - began) / KEYS * 1e6


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT)))
