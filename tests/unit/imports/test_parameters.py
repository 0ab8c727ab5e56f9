"""The parameters of what a name means, from an open text and from other files, against Python's own view of them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.languages.table import language_of
from efim_ls.text.outline import outline
from efim_ls.workspace.imports.parameters import find_parameters, parameters_in
from efim_ls.workspace.imports.paths import IndexedFiles, ReferringFile
from efim_ls.workspace.index_file import IndexFile
from tests.unit.workspace_index.conftest import ORIGIN, TOKENIZERS, indexed

SHOP = "class Order:\n    def __init__(self, customer, stripes=3): ...\n\n    def ship(self, address): ...\n"
FILES = {
    "shop/orders.py": SHOP,
    "shop/other.py": "def place(order, *, dry_run=False): ...\n",
    "far/other.py": "def place(walrus): ...\n",
    "far/hidden.py": "def place(secret): ...\n",
    "far/place.ts": "function place(script: number) {}\n",
}
CALLING = "def place(own): ...\n\n\nplace("


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        (CALLING, "place", ("own", "order", "dry_run", "walrus")),
        ("", "place", ("order", "dry_run", "walrus")),
        ("", "Order", ("customer", "stripes")),
        ("", "ship", ("address",)),
        ("", "nothing", ()),
    ],
)
def test_open_text_comes_first_and_files_that_are_not_shown_never(
    tmp_path: Path, text: str, name: str, parameters: tuple[str, ...]
) -> None:
    index = IndexFile(None, ORIGIN, TOKENIZERS, pytest.fail, "outlines")
    index.put([indexed(str(tmp_path / path), each, language_of(path)) for path, each in FILES.items()])
    files = IndexedFiles(index, FILES, lambda path: "hidden" not in path, lambda _: None)
    calling = ReferringFile(str(tmp_path / "shop/main.py"), "python", text)
    assert find_parameters(files, calling, name) == parameters


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("@dataclass\nclass f:\n    species: str\n    legs: int = 4\n", ["species", "legs"]),
        ("class f:\n    legs: int\n    many = 4\nother: int = 4\n", ["legs"]),
        ("class f:\n    legs: int\n    def __init__(self, species): ...\n", ["species"]),
        ("class g:\n    def __init__(self, species): ...\n\nclass f(g): ...\n", []),
        ("async def f(first, second): ...\n", ["first", "second"]),
        (
            "def f(\n    first: dict[str, int],  # a note, (one\n    second=(1, 2),\n): ...\n",
            ["first", "second"],
        ),
        ("def f(first=',)', second=\")\", third='(['): ...\n", ["first", "second", "third"]),
        ("def f(first, second", []),
        ("f = lambda first: 1\n", []),
    ],
)
def test_a_class_takes_what_creates_it_and_else_its_fields(text: str, parameters: list[str]) -> None:
    assert parameters_in(outline(text, "python"), "f") == parameters


DEFAULTS = st.sampled_from(("", "=1", "='a, b'", "=(1, (2))", "={'c': [1]}", ": int", ": dict[str, int] = {}"))
PARAMETERS = st.lists(st.tuples(st.sampled_from("abcdefgh"), DEFAULTS), max_size=5, unique_by=lambda each: each[0])


@given(PARAMETERS, PARAMETERS, PARAMETERS, st.sampled_from(("*", "*args")), st.booleans())
def test_any_function_has_the_keywords_that_python_accepts(
    positional: list[tuple[str, str]],
    usual: list[tuple[str, str]],
    keyword: list[tuple[str, str]],
    star: str,
    more: bool,
) -> None:
    named = [
        *([*(f"p{name}{rest}" for name, rest in positional), "/"] if positional else []),
        *(f"u{name}{rest}" for name, rest in usual),
        *([star, *(f"k{name}{rest}" for name, rest in keyword)] if keyword else []),
        *(["**others"] if more else []),
    ]
    text = f"def f({', '.join(named)}): ...\n"
    scope: dict[str, object] = {}
    try:
        exec(text, scope)
    except SyntaxError:  # a parameter without a default behind one that has it
        return
    function = scope["f"]
    assert callable(function)
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    taken = [each.name for each in inspect.signature(function).parameters.values() if each.kind in kinds]
    assert len(text) > 200 or parameters_in(outline(text, "python"), "f") == taken
