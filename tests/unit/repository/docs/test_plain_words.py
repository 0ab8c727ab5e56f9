"""Texts say things plainly: they name the thing, repeat the noun, and speak to you.

`REFUSED` are phrases that readers stumble over, each with a plain form in its place.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
REFUSED = {
    r"what (?:is|was|it|they)": "name the thing: 'the cache', not 'what is kept'",
    r"(?:that|those) of": "repeat the noun",
    r"another one|(?:the|other|such) ones|ones? (?:that|which|who)": "repeat the noun",
    r"of (?:its|their|his|her) own": "its own, separate, another",
    r"so many": "count",
    r"who \w+s on|somebody": "you",
    r"(?<!--)besides?": "next to, as well as, compared with",
    r"but for": "except",
    r"as far as": "if, where, up to",
    r"begun": "started",
    r"bec[oa]mes? of": "the outcome",
    r"told": "warned, notified, said",
}
PHRASE = re.compile(rf"\b(?:{'|'.join(REFUSED)})\b".replace(" ", r"\s+"), re.IGNORECASE)
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.yaml")),
    *sorted((ROOT / "model_runtime").rglob("README.md")),
    *sorted((ROOT / "editor_clients/vscode/media").glob("*.md")),
    *(ROOT / "editor_clients" / name for name in ("vscode/README.md", "neovim/README.md", "neovim/doc/efim-ls.txt")),
]
PACKAGES = ("efim_ls", "model_runtime", "kv_store", "editor_clients", "efim_lab", "benchmarks")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
CLIENTS = [
    *sorted((ROOT / "editor_clients/vscode/src").glob("*.ts")),
    *sorted((ROOT / "editor_clients/neovim").rglob("*.lua")),
]
BLOCKS = r"/\*.*?\*/|//[^\n]*"
COMMENTS = {".ts": BLOCKS, ".c": BLOCKS, ".h": BLOCKS, ".lua": r"--[^\n]*", "": r"#[^\n]*"}  # by ending
MARKERS = re.compile(r"^\s*(?:/\*+|\*|//+|--+|#+)", re.MULTILINE)  # at the start of a comment's lines
QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|`[^`]*`')
CODE = re.compile(r"\$\{[^{}]*\}")  # in a template
SOURCES = [ROOT / "Makefile", *(path for room in PACKAGES for path in sorted((ROOT / room).rglob("*.[ch]")))]
NAMES = re.compile(r"`[^`\n]*`")  # of variables and files


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def found(text: str) -> list[str]:
    return [" ".join(each[0].split()) for each in PHRASE.finditer(text)]


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant() as text), *_]:
                    yield text
                case _:
                    pass


def messages(path: Path) -> Iterator[str]:
    """The texts of several words in a module, other than its docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    others = set(docstrings(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if node not in others and " " in text:
                yield text
            case _:
                pass


def comments(path: Path) -> Iterator[str]:
    """The docstrings and the comments of a module, without the names in them."""
    text = path.read_text("utf-8")
    yield from (NAMES.sub("``", str(each.value)) for each in docstrings(ast.parse(text)))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield "\n".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)


def remarks(path: Path) -> str:
    """The comments of a file in another language than Python."""
    found = re.findall(COMMENTS[path.suffix], path.read_text("utf-8"), re.DOTALL)
    return MARKERS.sub("", "\n".join(found))


def strings(value: Any) -> Iterator[str]:
    """The texts of a JSON value."""
    match value:
        case str():
            yield value
        case dict() | list():
            inner: Any = value.values() if isinstance(value, dict) else value
            yield from (text for each in inner for text in strings(each))
        case _:
            pass


def test_refused_phrases_are_found() -> None:
    assert found("Return what\n is kept, but for those of another one.") == [
        "what is",
        "but for",
        "those of",
        "another one",
    ]
    assert found("Return the cached blocks; tell it whatever it was beforehand.") == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_are_plain(page: Path) -> None:
    assert found(page.read_text("utf-8")) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_are_plain(package: str) -> None:
    paths = (path for path in MODULES if path.is_relative_to(ROOT / package))
    assert [(name(path), found(text)) for path in paths for text in messages(path) if found(text)] == []


def test_messages_of_the_clients_are_plain() -> None:
    texts = ((path, each) for path in CLIENTS for each in QUOTED.findall(path.read_text("utf-8")))
    assert [(name(path), found(text)) for path, text in texts if found(CODE.sub("", text))] == []


@pytest.mark.parametrize("path", [*CLIENTS, *SOURCES], ids=name)
def test_comments_in_other_languages_are_plain(path: Path) -> None:
    assert found(remarks(path)) == []


def test_the_extensions_settings_are_plain() -> None:
    package = json.loads((ROOT / "editor_clients/vscode/package.json").read_text("utf-8"))
    assert [text for text in strings(package) if found(text)] == []


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent.name != "demo"], ids=name)
def test_docstrings_and_comments_are_plain(path: Path) -> None:
    assert [found(text) for text in comments(path) if found(text)] == []
