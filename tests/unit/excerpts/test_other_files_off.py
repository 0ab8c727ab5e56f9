"""An index keeps outlines only for imports to offer, and words only for text in prompts; it loses the rest."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from efim_ls.access.rules import Rules
from efim_ls.commands import index as index_command
from efim_ls.settings import Settings
from efim_ls.workspace.database.origin import index_path
from efim_ls.workspace.database.tables import APPLICATION_ID
from efim_ls.workspace.files import content
from efim_ls.workspace.index import Scope
from efim_ls.workspace.shared import IndexClient, SharedIndexes
from model_runtime.prompt.context import NO_CONTEXT, ContextBudget
from model_runtime.shelves.excerpts.excerpts import ExcerptBudget
from tests.unit.workspace_index.conftest import TOKENIZERS
from tests.unit.workspace_index.test_index_privacy import SECRET, SOURCE, WORDS, traces
from tests.waiting import HANG

OFF, ON = (), ExcerptBudget(300, 300, 300)
SEARCHED = {"outlines", "definitions", "passages"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "project").mkdir()
    (folder / "a.py").write_text(SOURCE)
    (folder / "b.py").write_text("import a\n\n\ndef plain_name(): pass\n")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def repository() -> Iterator[IndexClient]:
    made = IndexClient(SharedIndexes(lambda: False), lambda _: None)
    yield made
    assert made.close(HANG)


def adopt(repository: IndexClient, folder: Path, cache: Path, budget: ContextBudget, next_edit: bool = False) -> None:
    settings = Settings(cache_folder=str(cache), next_edit=next_edit)
    repository.adopt(Scope.of(settings, Rules(settings, [folder.as_uri()]), [folder], TOKENIZERS, budget))
    assert repository.wait(HANG)


def tables(folder: Path, cache: Path) -> set[str]:
    with closing(sqlite3.connect(index_path(cache, [folder]))) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def test_nothing_is_made_or_stored(
    repository: IndexClient, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "outline", lambda *_: pytest.fail("an outline is made"))
    adopt(repository, folder, cache, OFF)
    repository.open(str(folder / "b.py"), "python", "x = 1\n")
    assert repository.wait(HANG)
    assert (
        repository.context.at(str(folder / "b.py"), 0) is NO_CONTEXT
        and repository.status
        and repository.status.files == 2
    )
    assert not SEARCHED & tables(folder, cache) and traces(cache) == {"token ids"}


def test_what_was_stored_leaves_the_disk_once_it_is_off(repository: IndexClient, folder: Path, cache: Path) -> None:
    adopt(repository, folder, cache, ON)
    counted = repository.view("python", ())
    assert tables(folder, cache) > SEARCHED and traces(cache) == {*WORDS, "token ids"}
    adopt(repository, folder, cache, OFF)
    assert not SEARCHED & tables(folder, cache) and traces(cache) == {"token ids"}
    assert counted is not None and repository.view("python", ()) == counted


def test_next_edits_need_no_words_but_those_that_are_defined(
    repository: IndexClient, folder: Path, cache: Path
) -> None:
    (folder / "b.py").write_text("import a\n\n\ndef plain_name(): inner_name = 1\n")
    words = ["plain_name", "inner_name"]
    adopt(repository, folder, cache, ON)
    assert traces(cache, words) == {*words, "token ids"}
    adopt(repository, folder, cache, OFF, next_edit=True)
    assert traces(cache, words) == {"plain_name", "token ids"}
    adopt(repository, folder, cache, ON, next_edit=True)
    assert traces(cache, words) == {*words, "token ids"}
    adopt(repository, folder, cache, OFF, next_edit=True)
    adopt(repository, folder, cache, OFF)
    assert not SEARCHED & tables(folder, cache) and traces(cache, words) == {"token ids"}


def test_it_is_made_once_it_is_on(repository: IndexClient, folder: Path, cache: Path) -> None:
    adopt(repository, folder, cache, OFF)
    adopt(repository, folder, cache, ON)
    assert tables(folder, cache) > SEARCHED and traces(cache) == {*WORDS, "token ids"}
    importing = str(folder / "b.py")
    repository.open(importing, "python", f"from a import {SECRET}\n")
    assert repository.wait(HANG)
    (shown,) = repository.context.at(importing, 0).all
    assert shown.path == "a.py" and SECRET in shown.text


def test_an_index_of_another_version_loses_them(repository: IndexClient, folder: Path, cache: Path) -> None:
    path = index_path(cache, [folder])
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"""
            CREATE TABLE definitions (name TEXT);
            INSERT INTO definitions VALUES ('{SECRET}');
            PRAGMA application_id = {APPLICATION_ID};
            PRAGMA user_version = 2;
        """)
    assert traces(cache) == {*WORDS}
    adopt(repository, folder, cache, OFF)
    assert not SEARCHED & tables(folder, cache) and traces(cache) == {"token ids"}


def test_a_command_leaves_them_to_the_server(repository: IndexClient, folder: Path, cache: Path) -> None:
    adopt(repository, folder, cache, ON)
    (folder / "c.py").write_text("def later_name(): pass\n")
    index_command.build(folder, cache, rebuild=False)
    assert traces(cache, WORDS) >= {*WORDS}
    other = IndexClient(SharedIndexes(lambda: False), lambda _: None)
    adopt(other, folder, cache, ON)
    assert traces(cache, ["later_name"]) == {"later_name", "token ids"}
    assert other.close(HANG)
