"""`efim-ls index`, and its part in `cache` and `doctor`, run as a user runs them."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from efim_ls.access.rules import Rules
from efim_ls.settings import Settings
from efim_ls.workspace.database.origin import IndexOrigin, index_path
from efim_ls.workspace.index import Scope, WorkspaceIndex, open_index
from efim_ls.workspace.index_file import IndexFile
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers
from model_runtime.shelves.excerpts.excerpts import ExcerptBudget
from tests.lsp.wire import ENV
from tests.processes import command_line
from tests.waiting import HANG


def run(*arguments: str, folder: Path | None = None) -> tuple[int, str]:
    done = command_line.run("efim_ls", *arguments, env={**ENV, "COLUMNS": "300"}, folder=folder)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("def name_of_a(): pass\n")
    (folder / "b.ts").write_text("const nameOfB = 1\n")
    (folder / "client.py").write_text("hunter_two = 1\n")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def by_server(project: Path, cache: Path, settings: Settings) -> None:
    """Leave what a server with these settings leaves."""
    tokenizer = Tokenizer(EMBEDDED / "tokenizer.json")
    IndexFile(
        index_path(cache, [project]), IndexOrigin((str(project),), settings), LanguageTokenizers(tokenizer), print
    ).close()


def by_server_with_other_files(project: Path, cache: Path) -> None:
    """Leave what a server leaves whose prompts show text of other files."""
    settings, tokenizer = Settings(cache_folder=str(cache)), Tokenizer(EMBEDDED / "tokenizer.json")
    scope = Scope.of(
        settings,
        Rules(settings, [project.as_uri()]),
        [project],
        LanguageTokenizers(tokenizer),
        ExcerptBudget(9, 9, 9),
    )
    index = WorkspaceIndex(scope, open_index(scope, pytest.fail))
    for _ in index.build():
        pass
    index.close()


def test_it_builds_shows_and_clears(project: Path, cache: Path) -> None:
    at = ("--folder", str(cache))
    code, shown = run("index", str(project), "--status", *at)
    assert code == 1 and shown == f"there is no index of {project}: run efim-ls index to make one\n"
    code, shown = run("index", *at, folder=project)
    assert code == 0 and re.fullmatch(r"3 files are indexed: 0\.\d MB in \S+\n", shown)
    (project / "client.py").unlink()
    for more in ((), ("--rebuild",)):
        assert run("index", str(project), *more, *at)[1].startswith("2 files are indexed")
    code, shown = run("index", str(project), "--status", *at)
    assert code == 0 and shown.splitlines()[1:] == ["  Python: 1", "  TypeScript: 1"]
    assert run("index", str(project), "--clear", *at)[0] == 0
    assert list((cache / "repositories").iterdir()) == []
    assert run("index", str(project), "--clear", *at) == (1, "removed: 0.0 MB\n")


def test_progress_is_shown_on_a_terminal(project: Path, cache: Path) -> None:
    command = f"{sys.executable} -m efim_ls index {project} --folder {cache}"
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"], env=ENV, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0 and "indexing: " in done.stdout and "3 files are indexed" in done.stdout


def test_it_obeys_the_settings_of_the_last_editor(project: Path, cache: Path) -> None:
    by_server(project, cache, Settings(private_files=("*/client.py",)))
    assert run("index", str(project), "--folder", str(cache))[1].startswith("2 files")
    assert not any(b"hunter" in each.read_bytes() for each in cache.rglob("*.sqlite3*"))
    by_server(project, cache, Settings(persist=False))
    code, shown = run("index", str(project), "--folder", str(cache))
    assert code == 1 and "'persist' is off" in shown


def test_a_model_that_is_not_there_is_told(project: Path, cache: Path) -> None:
    by_server(project, cache, Settings(model="someone/some-model"))
    code, shown = run("index", str(project), "--folder", str(cache))
    assert code == 1 and "someone/some-model has not been downloaded" in shown


def test_a_folder_that_is_missing_is_a_mistake(tmp_path: Path) -> None:
    code, shown = run("index", str(tmp_path / "none"), "--folder", str(tmp_path))
    assert code == 2 and shown.endswith("none is not a folder: check the path\n")


def test_a_cache_that_cannot_be_written_is_told(project: Path, cache: Path) -> None:
    cache.write_text("no folder")
    code, shown = run("index", str(project), "--folder", str(cache))
    assert code == 1 and "cannot be kept on disk" in shown


def test_the_cache_lists_and_clears_it(project: Path, cache: Path) -> None:
    at = ("--folder", str(cache))
    run("index", str(project), *at)
    code, shown = run("cache", "ls", *at)
    assert code == 0 and f"index of {project}: 3 files, 0." in shown
    code, shown = run("cache", "clear", "--file", str(project / "client.py"), *at)
    assert code == 0 and shown.endswith("client.py, and its part of the index\n")
    assert not any(b"hunter" in each.read_bytes() for each in cache.rglob("*.sqlite3*"))
    assert "2 files" in run("cache", "ls", *at)[1]
    code, shown = run("cache", "clear", *at)
    assert code == 0 and shown.startswith("removed: 0.") and list(cache.iterdir()) == []


def test_a_damaged_one_is_listed_and_removed(project: Path, cache: Path) -> None:
    at = ("--folder", str(cache))
    run("index", str(project), *at)
    index_path(cache, [project]).write_text("something else, long enough to be a header" * 20)
    assert "index of damaged" not in (listed := run("cache", "ls", *at)[1]) and "a damaged index" in listed
    assert run("index", str(project), "--status", *at)[0] == 1
    assert run("cache", "clear", "--file", str(project / "a.py"), *at)[0] == 0
    assert list((cache / "repositories").glob("*.sqlite3")) == []


def test_one_that_is_whole_is_verified_and_left_as_it_is(project: Path, cache: Path) -> None:
    at = ("--folder", str(cache))
    run("index", str(project), *at)
    before = index_path(cache, [project]).read_bytes()
    code, shown = run("cache", "verify", *at)
    assert code == 0 and shown.startswith(f"index of {project} in ") and shown.endswith(": whole\n")
    assert index_path(cache, [project]).read_bytes() == before


DAMAGE = {
    "a header": lambda file: file.write_bytes(b"\0" * 4096),
    "a page": lambda file: file.write_bytes((content := file.read_bytes())[:8192] + b"\x05" * 100 + content[8292:]),
    "token ids": lambda file: change(file, "UPDATE tokens SET ids = x'0001'"),
    "a file's state": lambda file: change(file, "UPDATE files SET size = size + 1"),
    "a passage": lambda file: change(file, "UPDATE passages_content SET c0 = 'other'"),
}


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_verified(project: Path, cache: Path, damage: str) -> None:
    at = ("--folder", str(cache))
    by_server_with_other_files(project, cache)
    DAMAGE[damage](index_path(cache, [project]))
    code, shown = run("cache", "verify", *at)
    assert code == 1 and "damaged (" in shown and "Traceback" not in shown
    assert index_path(cache, [project]).exists()


def test_one_that_a_server_writes_to_is_not_called_damaged(project: Path, cache: Path) -> None:
    at = ("--folder", str(cache))
    by_server_with_other_files(project, cache)
    with closing(sqlite3.connect(index_path(cache, [project]), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        code, shown = run("cache", "verify", *at)
    assert code == 0 and "not checked, because a server is writing" in shown
