"""Classes, members, functions and commands that the documents name in backquotes exist."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.repository.docs.test_docs_links import BLOCK, DEVELOPERS, PATHS, ROOT

PACKAGES = ("efim_ls", "model_runtime", "kv_store", "efim_lab", "editor_clients")
MODULES = {part for path in PATHS for part in Path(path).relative_to(ROOT).with_suffix("").parts}
PAGES = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
]
QUOTED = re.compile(r"`([^`\n]+)`")
CLASS = re.compile(r"[A-Z]+[a-z]\w*")
MEMBER = re.compile(rf"({CLASS.pattern})\.(\w+)")
NAME = re.compile(r"_?[a-z][a-z0-9_]*|[A-Z][A-Z0-9_]+")
TARGET = re.compile(r"^([a-z][\w-]*)[ \w-]*:", re.MULTILINE)
MAKE = re.compile(r"`make ([a-z][\w-]*)")
FOREIGN = {"Escape", "ast", "call_soon_threadsafe", "globals", "site"}  # a key, asyncio's, Python's


@cache
def trees() -> list[ast.Module]:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    paths += [*(ROOT / "tests").glob("*.py"), ROOT / "tests" / "lsp" / "wire.py"]
    return [ast.parse(path.read_text("utf-8")) for path in paths]


@cache
def members() -> dict[str, set[str]]:
    """The names that each class defines: methods, fields and attributes."""
    found = defaultdict[str, set[str]](set)
    for node in (node for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        attributes = (each for each in ast.walk(node) if isinstance(each, ast.Attribute))
        found[node.name] |= {name for statement in node.body for name in defined(statement)}
        found[node.name] |= {each.attr for each in attributes if ast.unparse(each.value) == "self"}
    return found


@cache
def names() -> set[str]:
    return {*(name for tree in trees() for node in ast.walk(tree) for name in defined(node)), *MODULES}


@cache
def texts() -> set[str]:
    """All texts in the code: values of settings and fields of messages are among them."""
    return {str(node.value) for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            yield from (each.id for each in targets if isinstance(each, ast.Name))
        case _:
            pass


def quoted(page: str) -> list[str]:
    return QUOTED.findall(BLOCK.sub("", (ROOT / page).read_text("utf-8")))


def exists(text: str) -> bool:
    """Whether a class or a member exists; other texts are taken for granted."""
    if match := MEMBER.fullmatch(text):
        return match[2] in members().get(match[1], ())
    return not CLASS.fullmatch(text) or text in names()


def test_a_name_that_is_gone_is_found() -> None:
    assert [each for each in ("Planner", "Planner.plan", "Planer", "Planner.plans", "a b") if not exists(each)] == [
        "Planer",
        "Planner.plans",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_classes_and_members_exist(page: str) -> None:
    assert [each for each in quoted(page) if not exists(each) and each not in FOREIGN] == []


@pytest.mark.parametrize("page", DEVELOPERS)
def test_functions_and_fields_exist(page: str) -> None:
    plain = (each.removesuffix("()") for each in quoted(page))
    assert [each for each in plain if NAME.fullmatch(each) and each not in names() | texts() | FOREIGN] == []


@pytest.mark.parametrize("page", PAGES)
def test_targets_of_make_exist(page: str) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text("utf-8")))
    assert "lint" in targets and set(MAKE.findall((ROOT / page).read_text("utf-8"))) <= targets
