"""What is read from the source of one module."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.workspace.modules.source import ModuleRecord, read_compiled, read_source


def read(text: str, module: str = "package.module", *, is_package: bool = False) -> ModuleRecord:
    return read_source(dedent(text).encode(), module, is_package)


def test_names_of_all_branches() -> None:
    record = read("""
        import os.path, json as js
        from . import sibling
        from ..other import thing as renamed
        A, (B, *C) = 1, (2, 3)
        D: int = 4
        if A:
            def e(): inner = 1
        else:
            class F: pass
        try:
            from fast import g
        except ImportError:
            g = n = None
        for h in A: i = h + 1
        with A as j: pass
        def k():
            global L
            L = 1
    """)
    assert set(record["names"]) == {*"ABCDFeghijkLn", "os", "js", "sibling", "renamed"}
    assert record["names"]["e"] == "function"
    assert record["names"]["F"] == "class"
    assert record["sources"] == {
        "os": ("os", ""),
        "js": ("json", ""),
        "sibling": ("package", "sibling"),
        "renamed": ("other", "thing"),
        "g": ("fast", "g"),
    }
    assert not record["open"]


def test_relative_imports_of_a_package_begin_in_it() -> None:
    record = read("from .core import *\nfrom .. import x", "a.b", is_package=True)
    assert record["stars"] == ["a.b.core"]
    assert record["sources"] == {"x": ("a", "x")}


@pytest.mark.parametrize(
    "text",
    [
        "def __getattr__(name): ...",
        "globals().update(A=1)",
        "for name in 'ab':\n    globals()[name] = 1",
        "mine = globals()\nmine['a'] = 1",
        "import sys\nsys.modules[__name__] = object()",
        "exec('a = 1')",
        "Enum._convert_('A', __name__, lambda name: True, source=other)",
    ],
)
def test_modules_that_bind_names_behind_their_source_are_open(text: str) -> None:
    assert read(text)["open"]


@pytest.mark.parametrize("text", ["x = globals()['a']", "def f(): return globals()", "vars(f).update(a=1)"])
def test_modules_that_look_at_their_names_are_not_open(text: str) -> None:
    assert not read(text)["open"]


def test_in_the_library_names_that_are_served_stand_in_all() -> None:
    record = read("__all__ = ['late']\ndef __getattr__(name): ...", "concurrent.futures", is_package=True)
    assert not record["open"]
    assert "late" in record["names"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__all__ = ['a']\n__all__ += ['b']\n__all__.append('c')\n__all__.extend(('d',))", ["a", "b", "c", "d"]),
        ("__all__: list[str] = ['a']", ["a"]),
        ("__all__ = ['a'] + other.__all__", None),
        ("__all__ = ['a']\n__all__ += other.__all__", None),
        ("a = 1", None),
    ],
)
def test_what_a_module_exports(text: str, expected: list[str] | None) -> None:
    assert read(text).get("all") == expected


def test_members_of_a_class() -> None:
    record = read("""
        class A(Base, other.Base):
            b = 1
            c: int
            def __init__(self, d, e=1, /, f=2, *, g): self.h = d; self._hidden = 1
            def i(self, j): self.k: int = 2
            @property
            def l(self): ...
            class M:
                n = 1
        A.o = 1
    """)
    found = record["classes"]["A"]
    assert set(found["members"]) == set("bcfhiklMo") - {"f"}
    assert found["members"]["l"] == "value"
    assert found["members"]["i"] == "function"
    assert found["bases"] == ["Base", "other.Base"]
    assert found.get("parameters") == ["f", "g"]
    assert found["methods"] == {"i": ["j"]}
    assert set(record["classes"]["A.M"]["members"]) == {"n"}
    assert not found["open"]


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def __getattr__(self, name): ...",
        "class A:\n    def f(self, name): setattr(self, name, 1)",
        "class A:\n    def f(self, more): self.__dict__.update(more)",
        "class A(make()): ...",
        "class A(metaclass=Made): ...",
        "@register\nclass A: ...",
        "class A: ...\nsetattr(A, name, 1)",
        "if x:\n    class A: ...\nelse:\n    class A: ...",
    ],
)
def test_classes_that_get_members_otherwise_are_open(text: str) -> None:
    assert read(text)["classes"]["A"]["open"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(a, b=1, *c, d): ...", ["a", "b", "d"]),
        ("def f(a, /, b): ...", ["b"]),
        ("def f(a, **more): ...", ["a", "**"]),
        ("@changed\ndef f(a): ...", ["a", "**"]),
        ("@contextmanager\ndef f(a): ...", ["a"]),
        ("@overload\ndef f(a): ...\n@overload\ndef f(b): ...", ["a", "b"]),
        ("async def f(a): ...", ["a"]),
    ],
)
def test_parameters_of_a_function(text: str, expected: list[str]) -> None:
    assert read(text)["functions"]["f"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@dataclass\nclass A:\n    a: int\n    b: int = 1", ["a", "b"]),
        ("@dataclasses.dataclass(frozen=True)\nclass A(B):\n    a: int", ["a", "**"]),
        ("class A(NamedTuple):\n    a: int", ["a"]),
        ("@dataclass(init=False)\nclass A:\n    a: int\n    def __init__(self, b): ...", ["b"]),
        ("@define\nclass A:\n    a: int", ["**"]),
        ("class A:\n    def __new__(cls, a): ...", ["a"]),
        ("class A: ...", None),
    ],
)
def test_parameters_of_a_class(text: str, expected: list[str] | None) -> None:
    assert read(text)["classes"]["A"].get("parameters") == expected


def test_compiled_modules_of_the_library() -> None:
    record = read_compiled("itertools")
    assert record
    assert record["names"]["chain"] == "class"
    assert "from_iterable" in record["classes"]["chain"]["members"]
    assert read_compiled("csv") is None
    assert read_compiled("numpy") is None


NAMES = st.sampled_from(["a", "b", "_c", "D"])
LINES = st.one_of(
    st.builds("{} = 1".format, NAMES),
    st.builds("def {}(x): pass".format, NAMES),
    st.builds("class {}: pass".format, NAMES),
    st.builds("import {}".format, NAMES),
    st.builds("if 1: {} = 2".format, NAMES),
    st.builds("for {} in (): pass".format, NAMES),
    st.builds("from os import path as {}".format, NAMES),
)


@given(st.lists(LINES, max_size=8))
def test_no_name_that_running_would_bind_is_missed(lines: list[str]) -> None:
    source = "\n".join(lines)
    stored = {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    defined = {n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    aliases = {n.asname or n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.alias)}
    assert set(read(source)["names"]) == stored | defined | aliases
