"""Finds what makes a test's result depend on time; `python -m tests.source.timing` prints it, with file and line.

A test waits for what tells it that something has happened, as long as tests/waiting.py says, and moves the clocks
that the product reads. What a file does as a program, where `__name__` is `__main__`, is not looked at.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WAITING = "tests/waiting.py"  # the one place that reads a clock and sleeps
PROFILE = "tests/conftest.py"  # where Hypothesis' profile is
CLOCKS = {f"time.{name}" for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "process_time")}
SLEEPS = {"time.sleep", "asyncio.sleep", "os.sched_yield"}
THREADS = {"threading.active_count", "threading.enumerate"}
AGAIN = re.compile(r"retry|rerun|flaky", re.IGNORECASE)
OF_PROFILE = {"deadline", "derandomize", "database", "print_blob", "suppress_health_check"}
LIMITED = {"wait", "join", "wait_for", "timeout", "settimeout"}
SETS = "sets what conftest.py sets for all"


def findings(root: Path) -> list[str]:
    """Return what the tests below a root do that depends on time: `file:line: what is done`."""
    paths = (path for path in sorted((root / "tests").rglob("*.py")) if path.name != "__main__.py")
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return [
        f"{name}:{line}: {done}"
        for name, path in names.items()
        if name != WAITING
        for line, done in sorted(set(found_in(path.read_text("utf-8"))))
        if (name, done) != (PROFILE, SETS)
    ]


def found_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a module with what they do that depends on time."""
    tree = ast.parse(text)
    meant = dict(_imported(tree))
    for node in _outside_of_program(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            named = _dotted(node, meant)
            if named in CLOCKS:
                yield node.lineno, f"reads the clock {named}"
            if named in SLEEPS:
                yield node.lineno, f"sleeps by {named}"
            if named in THREADS:
                yield node.lineno, f"looks at all threads by {named}"
        if isinstance(node, ast.Call):
            yield from _called(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for each in node.decorator_list:
                if AGAIN.search(ast.unparse(each.func if isinstance(each, ast.Call) else each)):
                    yield each.lineno, "runs again what has failed"


def _called(call: ast.Call) -> Iterator[tuple[int, str]]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "wait" and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        yield call.lineno, "sleeps by waiting for what nobody tells"
    limits = call.args[-1:] if name in LIMITED else []
    limits += [each.value for each in call.keywords if each.arg == "timeout"]
    if any(map(_is_short, limits)):
        yield call.lineno, "waits with a limit of its own"
    for each in call.keywords:
        if each.arg in OF_PROFILE and name in ("settings", "register_profile"):
            yield call.lineno, SETS
        if each.arg and AGAIN.search(each.arg):
            yield call.lineno, "runs again what has failed"


def _is_short(limit: ast.expr) -> bool:
    """Return whether a limit is a number; none at all, to look once, is no limit."""
    return isinstance(limit, ast.Constant) and isinstance(limit.value, int | float) and limit.value > 0


def _outside_of_program(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "__name__ == '__main__'"):
            yield from _outside_of_program(child)


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that a module imports, with the dotted names of what they mean."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.asname or each.name, each.name) for each in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from ((each.asname or each.name, f"{node.module}.{each.name}") for each in node.names)


def _dotted(node: ast.Name | ast.Attribute, meant: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return meant.get(node.id, node.id)
    return f"{_dotted(node.value, meant)}.{node.attr}" if isinstance(node.value, ast.Name | ast.Attribute) else ""


if __name__ == "__main__":
    print("\n".join(found := findings(ROOT)))
    sys.exit(bool(found))
