"""What is chosen of other files: the right signatures, whole ones only, within budgets, and none that is excluded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.text.outline import outline
from efim_ls.workspace.excerpts.chooser import weight
from efim_ls.workspace.excerpts.signatures import OpenFile
from efim_ls.workspace.files.context import RecentEdit
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptBudget
from tests.unit.excerpts.choosers import ROOT, finished, make_chooser

STORE = '''class BlockStore:
    """Keeps blocks."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def read_block(self, name: str) -> bytes:
        return b""

    def _forget(self) -> None: ...


def open_store(folder: str) -> BlockStore:
    return BlockStore(folder)


def unused() -> None: ...
'''
USER = "from core.store import open_store\n\nstore = open_store('x')\nprint(store.read_block('a'))\n"
FILES = {"core/store.py": STORE, "core/__init__.py": "", "app.py": USER, "tool.py": USER.replace("'a'", "'b'")}


def texts(excerpts: tuple[Excerpt, ...]) -> dict[str, str]:
    return {each.path: each.text for each in excerpts}


def opened(path: str, text: str, language: str = "python") -> OpenFile:
    return OpenFile(f"{ROOT}/{path}", text, outline(text, language))


def defined(path: str, text: str, files: dict[str, str]) -> dict[str, str]:
    language = {"py": "python", "ts": "typescript", "go": "go", "rs": "rust"}[path.rpartition(".")[2]]
    return texts(make_chooser(files).imports(opened(path, text, language), {}))


def test_the_preamble_is_what_other_files_name_with_the_class_of_a_method() -> None:
    found = finished(make_chooser(FILES).signatures())
    assert texts(found) == {
        "core/store.py": (
            "class BlockStore:\n    def read_block(self, name: str) -> bytes: ...\n"
            "def open_store(folder: str) -> BlockStore: ...\n"
        )
    }
    assert found[0].lines == (0, 6, 12)
    assert found[0].why == "read_block is named in 2 other files; open_store is named in 2 other files"


def test_the_preamble_depends_on_no_order() -> None:
    shuffled = list(FILES.items())
    random.Random(1).shuffle(shuffled)
    assert finished(make_chooser(dict(shuffled)).signatures()) == finished(make_chooser(FILES).signatures())


@pytest.mark.parametrize(
    ("better", "worse"),
    [("read_block", "read"), ("readBlock", "readblock"), ("read", "_read")],
)
def test_a_telling_name_counts_more(better: str, worse: str) -> None:
    assert weight(better, 1) > weight(worse, 1)
    assert weight(better, 1) > weight(better, 6)


def test_what_a_file_imports_comes_with_public_members() -> None:
    text = "from core.store import BlockStore\n"
    assert defined("new.py", text, FILES) == {
        "core/store.py": (
            "class BlockStore:\n    def __init__(self, folder: str) -> None: ...\n"
            "    def read_block(self, name: str) -> bytes: ...\n"
        )
    }


OTHERS = {
    "core/a.py": "def load(x): ...\n",
    "far/a.py": "def load(y): ...\n",
    "shape.ts": "export function area(w: number) {\n  return w;\n}\n",
    "http/client.go": "package http\n\nfunc Get(url string) error {\n\treturn nil\n}\n",
    "src/net.rs": "pub struct Socket {\n    port: u16,\n}\n",
}


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("core/b.py", "from .a import load", "core/a.py"),
        ("core/deep/b.py", "from ..a import load", "core/a.py"),
        ("b.py", "from core.a import load as l", "core/a.py"),
        ("b.py", "from core import a\na.load(1)", "core/a.py"),
        ("b.py", "import far.a\nfar.a.load(1)", "far/a.py"),
        ("b.py", "import far.a as a", None),
        ("b.py", "from core import load", "core/a.py"),
        ("b.py", "from elsewhere import load", None),
        ("ui/main.ts", "import { area } from '../shape';", "shape.ts"),
        ("ui/main.ts", "import { area } from './shape';", None),
        ("main.go", 'package main\n\nimport "x.org/y/http"\n\nfunc f() {\n\thttp.Get("u")\n}\n', "http/client.go"),
        ("src/main.rs", "use crate::net::{Socket, Other};", "src/net.rs"),
        ("src/main.rs", "use crate::net::Socket;", "src/net.rs"),
    ],
)
def test_imports_are_followed_to_the_file_they_name(path: str, text: str, found: str | None) -> None:
    assert list(defined(path, text, OTHERS)) == ([found] if found else [])


def test_an_open_document_stands_for_its_file() -> None:
    changed = outline("def load(changed): ...\n", "python")
    file = opened("core/b.py", "from .a import load")
    found = make_chooser(OTHERS).imports(file, {f"{ROOT}/core/a.py": changed})
    assert texts(found) == {"core/a.py": "def load(changed): ...\n"}


def test_the_most_similar_chunk_and_the_last_edits_are_chosen() -> None:
    body = "".join(f"line_{n} = {n}\n" for n in range(60)) + "for block in blocks:\n    copy_block(block, target)\n"
    files = {"near.py": body, "edited.py": "first = 1\n" * 9}
    made = make_chooser(files)
    edits = [RecentEdit(f"{ROOT}/edited.py", files["edited.py"], 4)]
    text = "def copy_all(blocks, target):\n    for block in blocks:\n        "
    found = made.similar(f"{ROOT}/new.py", text, len(text), edits, lambda file: files[file[len(ROOT) + 1 :]])
    assert [(each.path, each.why.partition(" ")[0]) for each in found] == [
        ("edited.py", "edited"),
        ("near.py", "similar"),
    ]
    assert found[0].lines == tuple(range(1, 8))
    assert "copy_block(block, target)" in found[1].text
    lines = files["near.py"].splitlines()
    assert found[1].text.splitlines() == [lines[at] for at in found[1].lines]


@pytest.mark.parametrize("hidden", ["core/store.py", "app.py"])
def test_nothing_of_an_excluded_file_is_chosen(hidden: str) -> None:
    made = make_chooser(FILES, hidden=(hidden,))
    signatures, path = finished(made.signatures()), f"{ROOT}/new.py"
    imports = made.imports(opened("new.py", "from core.store import open_store"), {})
    edits = [RecentEdit(f"{ROOT}/{name}", text, 0) for name, text in FILES.items()]
    similar = made.similar(path, USER, len(USER), edits, lambda file: FILES[file[len(ROOT) + 1 :]])
    assert signatures or imports or similar
    assert hidden not in {each.path for each in (*signatures, *imports, *similar)}


@settings(max_examples=30)
@given(
    names=st.lists(st.sampled_from([f"make_{n}" for n in range(12)]), min_size=1, max_size=30),
    budget=st.builds(ExcerptBudget, st.integers(0, 90), st.integers(0, 90), st.integers(0, 90)),
)
def test_each_part_keeps_to_its_budget_and_shows_whole_signatures(names: list[str], budget: ExcerptBudget) -> None:
    parts = [
        f"def {name}(value_{n}: list[dict[str, int]], other: str = 'long default value') -> None: ..."
        for n, name in enumerate(names)
    ]
    files = {f"f{n}.py": part + "\n" for n, part in enumerate(parts)}
    text = "".join(f"from f{n} import {name}\n" for n, name in enumerate(names)) + " ".join(names) + "\n"
    made, path = make_chooser({**files, "a.py": text, "b.py": text + "b\n"}, budget), f"{ROOT}/c.py"
    edits = [RecentEdit(f"{ROOT}/a.py", text, len(names))]
    similar = made.similar(path, text, len(text), edits, lambda file: files.get(file[len(ROOT) + 1 :], text))
    chosen = finished(made.signatures()), made.imports(opened("c.py", text), {}), similar
    for part, tokens in zip(chosen, budget, strict=True):
        assert sum(map(made.size, part)) <= tokens
    whole = {part.removesuffix(" ...") for part in parts}
    shown = [line.removesuffix(" ...") for each in chosen[0] + chosen[1] for line in each.text.splitlines()]
    assert whole >= set(shown)
