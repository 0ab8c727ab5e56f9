"""Clients of one workspace: they share an index and its thread, and none sees or harms what is another's."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efim_ls.access.rules import Rules
from efim_ls.settings import Settings
from efim_ls.workspace import index as index_module
from efim_ls.workspace import thread as thread_module
from efim_ls.workspace.files.context import RetrievalPlace
from efim_ls.workspace.index import Scope, Steps, WorkspaceIndex
from efim_ls.workspace.overlay import IndexStatus
from efim_ls.workspace.shared import IndexClient, SharedIndexes
from efim_ls.workspace.thread import IndexThread
from model_runtime.prompt.context import ContextBudget
from model_runtime.shelves.excerpts.excerpts import ExcerptBudget
from tests.unit.workspace_index.conftest import TOKENIZER, TOKENIZERS
from tests.waiting import HANG

CODE = "def total(values):\n    return sum(values)\n"
ROOMY = ExcerptBudget(300, 300, 300)
Join = Callable[..., IndexClient]
MakeScope = Callable[..., Scope]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (project := (tmp_path / "project").resolve()).mkdir()
    for name in ("a.py", "b.py"):
        (project / name).write_text(f"{CODE}# {name}\n", "utf-8")
    return project


@pytest.fixture
def make_scope(folder: Path, tmp_path: Path) -> MakeScope:
    def make(budget: ContextBudget = (), **wanted: Any) -> Scope:
        settings = Settings(cache_folder=str(tmp_path / "cache"), **wanted)
        return Scope.of(settings, Rules(settings, [folder.as_uri()]), [folder], TOKENIZERS, budget)

    return make


@pytest.fixture
def indexes() -> SharedIndexes:
    return SharedIndexes(lambda: False)


@pytest.fixture
def join(indexes: SharedIndexes, make_scope: MakeScope) -> Iterator[Join]:
    """Let clients that share indexes join the one of a scope, and wait until it is built; all leave at the end."""
    joined = list[IndexClient]()

    def make(scope: Scope | None = None, on_status: Callable[[IndexStatus], None] = lambda _: None) -> IndexClient:
        joined.append(client := IndexClient(indexes, on_status))
        client.adopt(scope or make_scope())
        assert client.wait(HANG)
        return client

    yield make
    assert all(client.close(HANG) for client in joined)
    assert all(thread.ended(HANG) for thread in indexes._ending) and threads(indexes) == 0


def threads(indexes: SharedIndexes) -> int:
    return sum(not thread.ended(0) for thread in (*indexes._threads.values(), *indexes._ending))


def follows(client: IndexClient, text: str, without: tuple[str, ...] = ()) -> set[str]:
    """Which tokens followed the end of a text in what a client sees."""
    view = client.view("python", without)
    found = view.followers(TOKENIZER.encode(text)) if view else None
    return {TOKENIZER.decode(np.array([token])) for token in found.tokens} if found else set()


def test_clients_share_a_thread_and_neither_sees_what_the_other_types(
    indexes: SharedIndexes, join: Join, folder: Path
) -> None:
    first, second, path = join(), join(), str(folder / "a.py")
    assert threads(indexes) == 1
    assert first.view("python", ()) is second.view("python", ())
    first.open(path, "python", "alpha = first(beta, gamma, delta, one)\n")
    second.open(path, "python", "alpha = first(beta, gamma, delta, two)\n")
    assert first.wait(HANG) and second.wait(HANG)
    typed = "alpha = first(beta, gamma, delta,"
    assert (follows(first, typed), follows(second, typed)) == ({" one"}, {" two"})
    first.close_document(path)
    assert first.wait(HANG)
    assert (follows(first, typed), follows(second, typed)) == (set(), {" two"})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives each thread a priority")
@pytest.mark.parametrize(("given", "own"), [(0, 10), (15, 15)])
def test_the_thread_is_never_more_urgent_than_its_server(
    join: Join, monkeypatch: pytest.MonkeyPatch, given: int, own: int
) -> None:
    monkeypatch.setattr(thread_module, "NICENESS", 10)
    found = list[int]()

    def look(_: WorkspaceIndex) -> Steps:
        found.append(os.getpriority(os.PRIO_PROCESS, 0))
        yield

    def serve() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), given)
        client = join()
        assert client._thread
        client._thread.post(look)
        assert client.wait(HANG)

    server = threading.Thread(target=serve)
    server.start()
    server.join(HANG)
    assert found == [max(own, os.getpriority(os.PRIO_PROCESS, 0))]


def test_a_client_that_joins_reads_no_file_and_is_told_at_once(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    first, told = join(), list[IndexStatus]()
    for name in ("read_source", "source_files"):
        monkeypatch.setattr(index_module, name, lambda *_: pytest.fail("a file is read again"))
    second = join(on_status=told.append)
    assert second.status == first.status == told[-1]
    assert second.status and (second.status.state, second.status.files) == ("ready", 2)


def test_the_last_client_ends_the_index_and_no_other_does(indexes: SharedIndexes, join: Join, folder: Path) -> None:
    first, second = join(), join()
    first.open(str(folder / "a.py"), "python", "only = 'in the editor'\n")
    gone = weakref.ref(first._overlay)
    assert first.close(HANG) and threads(indexes) == 1
    assert first.view("python", ()) is None and first.status is None
    assert second.wait(HANG)
    gc.collect()
    assert gone() is None, "the thread keeps nothing of a client that has gone"
    (folder / "c.py").write_text(CODE)
    second.refresh([str(folder / "c.py")])
    assert second.wait(HANG) and second.status and second.status.files == 3
    assert second.close(HANG) and threads(indexes) == 0


def test_other_settings_have_an_index_of_their_own(indexes: SharedIndexes, join: Join, make_scope: MakeScope) -> None:
    first, second = join(), join(make_scope(disabled_files=("*/b.py",)))
    assert threads(indexes) == 2
    assert first.status and second.status and (first.status.files, second.status.files) == (2, 1)


def test_new_rules_of_one_client_change_nothing_for_another(join: Join, make_scope: MakeScope) -> None:
    first, second = join(), join()
    before = second.view("python", ())
    assert first.adopt(make_scope(disabled_files=("*/b.py",)))
    assert first.view("python", ()) is None
    assert first.wait(HANG) and first.status and first.status.files == 1
    assert second.wait(HANG) and second.view("python", ()) is before
    assert first.adopt(make_scope())
    assert first.wait(HANG) and first._thread is second._thread
    assert first.view("python", ()) is before


def test_a_client_that_leaves_while_files_are_read_does_not_end_that(
    join: Join, make_scope: MakeScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, build = threading.Event(), WorkspaceIndex.build
    may_go_on = threading.Event()

    def slow(index: WorkspaceIndex) -> Steps:
        begun.set()
        assert may_go_on.wait(HANG)
        yield from build(index)

    monkeypatch.setattr(WorkspaceIndex, "build", slow)
    indexes = SharedIndexes(lambda: False)
    first, second = (IndexClient(indexes, lambda _: None) for _ in range(2))
    for client in (first, second):
        client.adopt(make_scope())
    assert begun.wait(HANG)
    assert first.close(0)
    may_go_on.set()
    assert second.wait(HANG) and second.status and second.status.files == 2
    assert second.close(HANG)


def test_an_index_begins_once_the_one_of_earlier_rules_has_ended(
    join: Join, make_scope: MakeScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, may_end = list[str](), threading.Event()
    opened, close = thread_module.open_index, WorkspaceIndex.close

    def slow_close(index: WorkspaceIndex) -> None:
        assert may_end.wait(HANG)
        done.append("closed")
        close(index)

    def open_index(*args: Any) -> Any:
        done.append("opened")
        return opened(*args)

    waits, ended = threading.Event(), IndexThread.ended

    def noted(thread: IndexThread, seconds: float | None = None) -> bool:
        if seconds is None:
            waits.set()
        return ended(thread, seconds)

    client = join()
    monkeypatch.setattr(WorkspaceIndex, "close", slow_close)
    monkeypatch.setattr(thread_module, "open_index", open_index)
    monkeypatch.setattr(IndexThread, "ended", noted)
    client.adopt(make_scope(private_files=("*/b.py",)))
    assert waits.wait(HANG) and not client.wait(0)
    may_end.set()
    assert client.wait(HANG)
    assert done == ["closed", "opened"]


def test_whoever_waits_for_an_index_that_ends_is_told(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    client = join()
    thread = client._thread
    assert thread is not None

    begun = threading.Event()

    def endless(index: WorkspaceIndex, _: object) -> Steps:
        while True:
            begun.set()
            yield

    monkeypatch.setattr(WorkspaceIndex, "refresh", endless)
    client.refresh([])
    assert begun.wait(HANG) and not client.wait(0)
    assert client.close(HANG)
    assert thread.wait(0)


def test_excerpts_of_a_client_show_nothing_that_another_types(
    indexes: SharedIndexes, join: Join, make_scope: MakeScope, folder: Path
) -> None:
    (folder / "use.py").write_text("from a import total\n")
    first, second = join(make_scope(ROOMY)), join(make_scope(ROOMY))
    assert threads(indexes) == 1
    using = "from a import total, novelty\n\n\ndef secret_helper(values):\n    return values\n"
    first.open(str(folder / "a.py"), "python", CODE + "\n\ndef novelty(secret_helper, values): ...\n")
    for client in (first, second):
        client.open(str(folder / "use.py"), "python", using)
        client.retrieve(RetrievalPlace(str(folder / "use.py"), using, len(using)))
        assert client.wait(HANG)
    shown = [str(client.context.at(str(folder / "use.py"), 0)) for client in (first, second)]
    assert "def total(values)" in shown[0] and "def total(values)" in shown[1]
    assert "def novelty" in shown[0] and "novelty" not in shown[1]


def test_a_client_that_joins_later_shows_nothing_that_came_to_be_excluded(
    join: Join, make_scope: MakeScope, folder: Path
) -> None:
    first = join(make_scope(ROOMY))
    (folder / ".gitignore").write_text("b.py\n")
    first.refresh([str(folder / ".gitignore")])
    assert first.wait(HANG)
    second = join(make_scope(ROOMY))
    for client in (first, second):
        assert client.context.excluded_files == {str(folder / "b.py")}
