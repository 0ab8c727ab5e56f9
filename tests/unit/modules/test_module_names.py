"""What modules and classes have, through imports, stars and bases of other modules."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

import pytest

from efim_ls.workspace.modules.names import Module, Modules, Target
from efim_ls.workspace.modules.source import read_compiled, read_source


def modules(files: Mapping[str, str], submodules: Mapping[str, set[str]] | None = None) -> Modules:
    """Return answers about modules with these sources, by their names."""
    found = {
        name: read_source(dedent(text).encode(), name, name in (submodules or {})) for name, text in files.items()
    }
    builtins = read_compiled("builtins")
    assert builtins
    found["builtins"] = builtins
    within = submodules or {}
    known = {name: Module(record, frozenset(within.get(name, ()))) for name, record in found.items()}
    return Modules(known.get)


def target(known: Modules, dotted: str) -> Target | None:
    first, *path = dotted.split(".")
    return known.follow(Target(first), path)


def test_names_that_are_taken_by_a_star() -> None:
    found = modules({
        "a": "from b import *\nfrom c import *\nown = 1",
        "b": "one = 1\n_private = 2\ndef two(): ...",
        "c": "__all__ = ['three', '_four']\nthree = _four = five = 1",
    }).attributes(Target("a"))  # fmt: skip
    assert found
    assert set(found.kinds) == {"own", "one", "two", "three", "_four"}
    assert found.kinds["two"] == "function"
    assert not found.is_open


def test_a_star_of_what_is_unknown_leaves_a_module_open() -> None:
    found = modules({"a": "from b import *\nown = 1"}).attributes(Target("a"))
    assert found
    assert found.is_open
    assert found.may_have("anything")
    assert modules({}).attributes(Target("a")) is None


def test_stars_in_a_circle_end() -> None:
    found = modules({"a": "from b import *\nx = 1", "b": "from a import *\ny = 1"}).attributes(Target("a"))
    assert found
    assert set(found.kinds) == {"x", "y"}


def test_chains_of_stars_end_somewhere() -> None:
    sources = {f"m{n}": f"from m{n + 1} import *\nx{n} = 1" for n in range(200)}
    found = modules(sources | {"m200": ""}).attributes(Target("m0"))
    assert found
    assert found.is_open


def test_submodules_are_names() -> None:
    found = modules({"a": ""}, {"a": {"b"}})
    names = found.attributes(Target("a"))
    assert names
    assert names.kinds == {"b": "module"}
    assert target(found, "a.b") == Target("a.b")


@pytest.mark.parametrize(
    ("dotted", "expected"),
    [
        ("a", Target("a")),
        ("a.Class", Target("b.deep", "Class")),
        ("a.renamed", Target("b.deep", "function")),
        ("a.deep", Target("b.deep")),
        ("a.deep.Class.Inner", Target("b.deep", "Class.Inner")),
        ("a.Class.method", Target("b.deep", "Class.method")),
        ("a.Derived.method", Target("b.deep", "Class.method")),
        ("a.alias", Target("b.deep", "Class")),
        ("a.starred", Target("b.deep", "starred")),
        ("a.value", None),
        ("a.nothing", None),
        ("a.circle", None),
        ("nowhere.x", None),
    ],
)
def test_targets(dotted: str, expected: Target | None) -> None:
    found = modules({
        "a": """
            from b.deep import Class, function as renamed
            from b import deep
            from b.deep import *
            from b.deep import circle
            class Derived(Class): ...
            alias = Class
            value = 1
        """,
        "b": "",
        "b.deep": """
            from a import circle
            class Class:
                class Inner: ...
                def method(self): ...
            def function(): ...
            def starred(): ...
        """,
    }, {"b": {"deep"}})  # fmt: skip
    assert target(found, dotted) == expected


def test_stars_take_neither_submodules_nor_what_is_not_exported() -> None:
    found = modules(
        {
            "a": "from d import *\nfrom b import *\nfrom c import *\nfrom d import *",
            "b": "",
            "c": "from c import deep",
            "b.deep": "",
            "c.deep": "",
            "d": "__all__ = []\nimport e as deep, e as f",
            "e": "",
        },
        {"a": set(), "b": {"deep"}, "c": {"deep"}},
    )
    assert target(found, "a.deep") == Target("c.deep")
    assert target(found, "b.deep") == Target("b.deep")
    assert target(found, "d.f") == Target("e")
    assert target(found, "a.f") is None


def test_members_are_inherited() -> None:
    found = modules({
        "a": "from b import Base\nclass A(Base, dict):\n    own = 1",
        "b": "import c\nclass Base(c.Root):\n    def base(self): ...",
        "c": "class Root:\n    def __init__(self): self.root = 1",
    })  # fmt: skip
    members = found.attributes(Target("a", "A"))
    assert members
    assert {"own", "base", "root", "setdefault", "mro"} <= members.kinds.keys()
    assert not members.is_open
    assert members.may_have("_private")
    assert not members.may_have("other")
    assert members.beginning_with("ba") == ["base"]


def test_an_unknown_base_leaves_a_class_open() -> None:
    members = modules({"a": "from b import Base\nclass A(Base): own = 1"}).attributes(Target("a", "A"))
    assert members
    assert members.is_open
    assert "own" in members.kinds


def test_bases_in_a_circle_end() -> None:
    members = modules({"a": "class A(B): x = 1\nclass B(A): y = 1"}).attributes(Target("a", "A"))
    assert members
    assert {"x", "y"} <= members.kinds.keys()


def test_parameters_are_inherited() -> None:
    found = modules({
        "a": """
            from b import Base, Unknown
            class A(Base): ...
            class B(Unknown): ...
            class C: ...
            class D(Exception): ...
        """,
        "b": "from nowhere import Unknown\nclass Base:\n    def __init__(self, x, *, y=1): ...",
    })  # fmt: skip

    def parameters(dotted: str) -> tuple[list[str], bool] | None:
        at = target(found, dotted)
        names = found.keywords(at) if at else None
        return (list(names.kinds), names.is_open) if names else None

    assert parameters("a.A") == (["x", "y"], False)
    assert parameters("a.B") == ([], True)
    assert parameters("a.C") == ([], False)
    assert parameters("a.D") == ([], True)
    assert parameters("a.E") is None
    assert parameters("a") is None


def test_submodules_of_what_is_no_package_are_open() -> None:
    found = modules({"a": "", "b": ""}, {"a": {"c"}})
    of_package, of_module = found.submodules("a"), found.submodules("b")
    assert of_package
    assert of_module
    assert (list(of_package.kinds), of_package.is_open) == (["c"], False)
    assert of_module.is_open
