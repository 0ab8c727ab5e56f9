"""Tests of the engine use what it offers: no private attribute, and no method of it that is replaced for a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "tests" / "engine"
# Files that still read private attributes. None may be added, and one that no longer does has to go from here.
UNDONE = {
    "completion/test_complete_again.py",
    "completion/test_kv_persistence.py",
    "completion/test_leaks.py",
    "completion/test_warm_equals_cold.py",
    "excerpts/test_excerpts.py",
    "excerpts/test_warm_with_excerpts.py",
    "languages/test_phrases.py",
    "persistence.py",
}
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}  # public, in spite of their names
ENGINE = {"Alternatives", "DecodedAnswer", "LocalEngine", "Output", "Pool", "Sampler"}
ENGINE_MODULES = ("model_runtime.engine.", "model_runtime.kv.pool.")


@cache
def trees() -> dict[str, ast.AST]:
    paths = sorted(FOLDER.rglob("*.py"))
    return {str(path.relative_to(FOLDER)): ast.parse(path.read_text("utf-8")) for path in paths}


def private(tree: ast.AST) -> Iterator[str]:
    """Names of private attributes that are read or set on anything but one's own object or class, or torch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "torch")
            if not own and node.attr not in NAMED_TUPLE:
                yield node.attr


def replaced(tree: ast.AST) -> Iterator[str]:
    """What `setattr` of monkeypatch replaces of the engine's classes and modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            target = ast.unparse(node.args[0]).strip("'\"")
            if target in ENGINE or target.startswith(ENGINE_MODULES):
                yield target


@pytest.mark.parametrize(
    ("code", "private_names", "replaced_names"),
    [
        ("engine._pool._all", ["_all", "_pool"], []),
        ("self._pool; engine.pool; row._replace(at=1); engine.__class__", [], []),
        ("monkeypatch.setattr(Sampler, 'pick', None); patched.setattr(Planner, 'plan', None)", [], ["Sampler"]),
        (
            "monkeypatch.setattr('model_runtime.engine.local.decode', None)",
            [],
            ["model_runtime.engine.local.decode"],
        ),
    ],
)
def test_what_is_private_is_seen(code: str, private_names: list[str], replaced_names: list[str]) -> None:
    assert (list(private(ast.parse(code))), list(replaced(ast.parse(code)))) == (private_names, replaced_names)


def test_tests_of_the_engine_read_nothing_private() -> None:
    assert {name for name, tree in trees().items() if [*private(tree)]} == UNDONE


def test_tests_of_the_engine_replace_none_of_its_methods() -> None:
    assert {name: found for name, tree in trees().items() if (found := [*replaced(tree)])} == {}
