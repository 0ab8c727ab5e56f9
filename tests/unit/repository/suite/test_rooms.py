"""The table of the tests that drive a process: whole, and with a test for each room of the product."""

from __future__ import annotations

import ast
import subprocess
from itertools import chain
from pathlib import Path

import pytest

from tests.source.rooms import DRIVING, OTHERS, ROOMS, process_tests

ROOT = Path(__file__).parents[4]
NAMED = tuple(chain.from_iterable(ROOMS.values()))
CODE = {".py", ".c", ".h", ".lua", ".ts"}
TRACKED = subprocess.run(
    ("git", "ls-files", "efim_ls", "model_runtime", "kv_store", "editor_clients/*/*"),
    cwd=ROOT, check=True, capture_output=True, text=True,
).stdout.splitlines()  # fmt: skip
PRODUCT = sorted({path.parent.as_posix() for path in map(Path, TRACKED) if path.suffix in CODE})


def test_every_file_that_drives_a_process_has_a_row() -> None:
    found = {path.relative_to(ROOT / "tests") for each in DRIVING for path in (ROOT / each).rglob("test_*.py")}
    rows = [*OTHERS, *{test.partition("::")[0] for test in NAMED}]
    assert sorted(rows) == sorted(path.as_posix() for path in found)


@pytest.mark.parametrize("test", sorted(set(NAMED)))
def test_what_is_named_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    defined = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert not name or name in defined


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_a_folder(room: str) -> None:
    assert (ROOT / room).is_dir()


@pytest.mark.parametrize("folder", PRODUCT)
def test_a_change_in_any_folder_of_the_product_drives_a_process(folder: str) -> None:
    assert process_tests([f"{folder}/new.py"])
    assert len(process_tests([f"{folder}/new.py"], most=1)) == 1


def test_an_editor_is_driven_if_its_client_changes_and_only_then() -> None:
    clients = {"vscode": "src/new.ts", "neovim": "lua/new.lua"}
    for client, path in clients.items():
        assert all(f"{client}" in test for test in process_tests([f"editor_clients/{client}/{path}"]))
    assert all(room.startswith("editor_clients/") for room, tests in ROOMS.items() if "editors/" in "".join(tests))


def test_pages_drive_nothing() -> None:
    assert process_tests(["README.md", "editor_clients/vscode/README.md", "efim_lab/gate/git.py"]) == set()
