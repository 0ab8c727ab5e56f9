"""What a document's imports bind, and what code expects at a place in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.request import Names
from efim_ls.workspace.modules.document import DocumentImports, expected, expressions, imports_of
from efim_ls.workspace.modules.names import Module, Modules, Target
from efim_ls.workspace.modules.source import read_source

TOP_LEVEL = Names({"csv": "module", "package": "module"}, is_open=False)
SOURCES = {
    "csv": "class DictReader:\n    def __init__(self, f, delimiter=','): self.line_num = 0\nQUOTE_ALL = 1",
    "package": "from package.deep import make",
    "package.deep": "def make(size, *, colour): ...",
}
KNOWN = {
    name: Module(
        read_source(text.encode(), name, name == "package"), frozenset({"deep"} if name == "package" else ())
    )
    for name, text in SOURCES.items()
}
IMPORTS = (
    "import csv, package.deep\nimport csv as c\n"
    "from csv import DictReader as Reader\nfrom package import deep, make\n"
)


def at(code: str) -> tuple[str, str, list[str]] | None:
    """Return what is expected behind code below the imports: its kind, the stub and the names."""
    found = expected(IMPORTS + code, imports_of(IMPORTS), Modules(KNOWN.get), TOP_LEVEL)
    return (found.kind, found.stub, list(found.names.kinds)) if found else None


CSV, READER = ["DictReader", "QUOTE_ALL"], ["line_num", "mro"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("csv.Dict", ("attribute", "Dict", CSV)),
        ("for row in c.", ("attribute", "", CSV)),
        ("x = f(c.DictReader.l", ("attribute", "l", READER)),
        ("Reader.l", ("attribute", "l", READER)),
        ("package.deep.m", ("attribute", "m", ["make"])),
        ("deep.m", ("attribute", "m", ["make"])),
        ("import ", ("module", "", ["csv", "package"])),
        ("import csv, pa", ("module", "pa", ["csv", "package"])),
        ("from cs", ("module", "cs", ["csv", "package"])),
        ("import package.d", ("module", "d", ["deep"])),
        ("from package.d", ("module", "d", ["deep"])),
        ("from csv import Dict", ("name", "Dict", CSV)),
        ("from csv import QUOTE_ALL, Dict", ("name", "Dict", CSV)),
        ("from csv import (Dict", ("name", "Dict", CSV)),
        ("from csv import (\n    QUOTE_ALL,\n    Dict", ("name", "Dict", CSV)),
        ("csv.DictReader(f, del", ("keyword", "del", ["f", "delimiter"])),
        ("csv.DictReader(g('(', [1, 2]), del", ("keyword", "del", ["f", "delimiter"])),
        ("Reader(\n    f,\n    ", ("keyword", "", ["f", "delimiter"])),
        ("make(", ("keyword", "", ["size", "colour"])),
        ("csv.DictReader(f=1, ", ("keyword", "", ["delimiter"])),
        ("csv.DictReader(f == 1, g(delimiter=2), ", ("keyword", "", ["f", "delimiter"])),
        ("csv.DictReader(f, delimiter=c.Q", ("attribute", "Q", CSV)),
        ("def make(s", None),
        ("class make(s", None),
        ("other.x", None),
        ("self.csv.Dict", None),
        ("f().csv.Dict", None),
        ("'csv'.Dict", None),
        ("csv.DictReader(f).l", None),
        ("csv.DictReader([f, del", None),
        ("csv.DictReader(f, delimiter=", None),
        ("csv.DictReader(f) + del", None),
        ("from .package import m", None),
        ("from . import m", None),
        ("csv", None),
        ("", None),
    ],
)
def test_what_is_expected(code: str, found: tuple[str, str, list[str]] | None) -> None:
    assert at(code) == found


def test_imports() -> None:
    imports = imports_of(
        "import a.b, c as d  # e\nfrom f import (g,  # h\n    i as j,\n)\nfrom k import l, \\\n    m\n"
        "from . import n\nfrom .o import p\nfrom q import *\n"
    )
    assert imports.modules == {"a.b", "c", "f", "k", "q"}
    assert imports.bound == {
        "a": ("a", ""), "d": ("c", ""), "g": ("f", "g"), "j": ("f", "i"), "l": ("k", "l"), "m": ("k", "m"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "a = 1", "x, a = 1, 2", "a: int = 1", "def f(a): ...", "def f(x, *, a=1): ...", "def f(\n    a: int,\n): ...",
        "for a in x: ...", "[a for x, a in y]", "lambda a: 1", "with x as a: ...", "if (a := 1): ...", "def a(): ...",
        "class a: ...", "try: ...\nexcept E as a: ...", "from other import a",
    ],
)  # fmt: skip
def test_names_that_are_bound_otherwise_as_well_are_unknown(line: str) -> None:
    assert "a" not in imports_of(f"import a\n{line}\n").bound


@pytest.mark.parametrize(
    "line",
    [
        "a.b = 1",
        "a == 1",
        "x = a",
        "f(a)",
        "def f(x: a.B) -> a.C: ...",
        "def f(x: dict[str, a.B]): ...",
        "for x in a: ...",
    ],
)
def test_names_that_are_used_are_known(line: str) -> None:
    assert "a" in imports_of(f"import a\n{line}\n").bound


def test_expressions_begin_with_imported_names() -> None:
    text = "import a.b\nfrom c import D\na.b.e(x.y, D.f)\nz.a.g\n"
    found = {(start, tuple(path)) for start, path in expressions(text, imports_of(text))}
    assert found == {
        (Target("a"), ()), (Target("a"), ("b",)), (Target("a"), ("b", "e")), (Target("c"), ()),
        (Target("c"), ("D",)), (Target("c"), ("D", "f")),
    }  # fmt: skip


LINES = st.sampled_from(
    ["import a", "from b import c", "a = 1", "c.d", "", "import é.ü as a", "from x import (y,", "z)"]
)


@given(st.lists(st.tuples(st.lists(LINES, max_size=6).map("\n".join), st.integers(0, 60)), max_size=6))
def test_imports_are_those_of_the_other_lines_whatever_was_asked_before(texts: list[tuple[str, int]]) -> None:
    imports = DocumentImports()
    for text, place in texts:
        cursor = min(place, len(text))
        above, below = text[:cursor].rpartition("\n"), text[cursor:].partition("\n")
        assert imports.at(text, cursor) == imports_of("".join((*above[:2], *below[1:])))


def test_imports_are_read_again_if_their_length_stays() -> None:
    imports = DocumentImports()
    for name in "ab":
        assert imports.at(f"import {name}\nx", 10).modules == {name}
    for name in "ab":
        assert imports.at(f"x\nimport {name}", 0).modules == {name}


@given(st.text("abc.(),[]'\"# \n=import from", max_size=80))
def test_any_text_has_an_answer(code: str) -> None:
    at(code)
    list(expressions(code, imports_of(code)))
