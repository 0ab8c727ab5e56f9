"""The repository's thread: what it publishes, when it waits, and that nothing ends it but its owner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efim_ls.access.rules import Rules
from efim_ls.settings import Settings
from efim_ls.workspace import thread as module
from efim_ls.workspace.imports.paths import IndexedFiles
from efim_ls.workspace.index import Scope, Steps, WorkspaceIndex
from efim_ls.workspace.overlay import IndexStatus
from efim_ls.workspace.shared import IndexClient, SharedIndexes
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers
from tests.unit.workspace_index.test_workspace_index import TOKENIZER
from tests.waiting import HANG, Clock

CODE = "def total(values):\n    return sum(values)\n"


class OneShotResult:
    """Keeps what the repository tells, and says how often a user is typing."""

    def __init__(self) -> None:
        self.statuses: list[IndexStatus] = []
        self.typing = 0  # times that the user still types when asked

    def is_typing(self) -> bool:
        self.typing -= 1
        return self.typing >= 0


@pytest.fixture
def told() -> OneShotResult:
    return OneShotResult()


@pytest.fixture
def repository(told: OneShotResult) -> Iterator[IndexClient]:
    made = IndexClient(SharedIndexes(told.is_typing), told.statuses.append)
    yield made
    assert made.close(HANG)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (project := tmp_path / "project").mkdir()
    for name in ("a.py", "b.py"):
        (project / name).write_text(CODE + f"# {name}\n", "utf-8")
    return project.resolve()


def scope_of(folder: Path, cache: Path, **wanted: Any) -> Scope:
    settings = Settings(cache_folder=str(cache), **wanted)
    return Scope.of(settings, Rules(settings, [folder.as_uri()]), [folder], LanguageTokenizers(TOKENIZER))


def test_what_new_rules_exclude_is_out_of_the_next_view(
    repository: IndexClient, folder: Path, tmp_path: Path
) -> None:
    assert repository.view("python", ()) is None
    assert repository.adopt(scope_of(folder, tmp_path))
    assert repository.wait(HANG)
    before = repository.view("python", ())
    assert before is not None and repository.status is not None and repository.status.files == 2
    assert repository.adopt(scope_of(folder, tmp_path, disabled_files=("*/b.py",)))
    now = repository.view("python", ())  # whatever the thread has done since
    assert now != before
    assert repository.wait(HANG)
    assert repository.status is not None and repository.status.files == 1
    assert repository.adopt(None)
    assert repository.view("python", ()) is None and repository.status is None


def test_the_same_scope_is_not_begun_again(repository: IndexClient, folder: Path, tmp_path: Path) -> None:
    assert repository.adopt(scope_of(folder, tmp_path))
    assert not repository.adopt(scope_of(folder, tmp_path, suggestions=0.9))
    assert repository.adopt(scope_of(folder, tmp_path, memory_mib=32))


def test_a_file_that_is_left_out_changes_the_view(repository: IndexClient, folder: Path, tmp_path: Path) -> None:
    repository.adopt(scope_of(folder, tmp_path))
    assert repository.wait(HANG)
    whole, less = repository.view("python", ()), repository.view("python", [str(folder / "a.py")])
    assert whole != less == repository.view("python", [str(folder / "a.py"), "/not/indexed.py"])


def test_work_that_fails_is_logged_and_later_work_is_done(
    repository: IndexClient,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    repository.adopt(scope_of(folder, tmp_path))
    assert repository.wait(HANG)

    def failing(index: WorkspaceIndex, paths: object) -> Steps:
        yield
        raise RuntimeError("a text that nobody should read")

    with monkeypatch.context() as patched:
        patched.setattr(WorkspaceIndex, "refresh", failing)
        repository.refresh([str(folder / "a.py")])
        assert repository.wait(HANG)
    assert "a step of indexing the workspace failed" in caplog.text
    (folder / "c.py").write_text(CODE, "utf-8")
    repository.refresh([str(folder / "c.py")])
    assert repository.wait(HANG)
    assert repository.status is not None and repository.status.files == 3


def test_an_index_that_cannot_be_made_is_done_without(
    repository: IndexClient,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refused(*_: object) -> None:
        raise OSError("no such device")

    monkeypatch.setattr(WorkspaceIndex, "__init__", refused)
    repository.adopt(scope_of(folder, tmp_path))
    repository.refresh([str(folder)])
    assert repository.wait(HANG)
    assert repository.view("python", ()) is None
    assert "the workspace cannot be indexed" in caplog.text


def test_no_step_is_taken_while_the_user_types(
    repository: IndexClient, folder: Path, tmp_path: Path, told: OneShotResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def watched(index: WorkspaceIndex, paths: object) -> Steps:
        taken.append(told.typing)
        yield

    repository.adopt(scope_of(folder, tmp_path))
    assert repository.wait(HANG)
    monkeypatch.setattr(WorkspaceIndex, "refresh", watched)
    monkeypatch.setattr(module, "monotonic", Clock())
    told.typing = 3
    repository.refresh([])
    assert repository.wait(HANG)
    assert taken[0] < 0


def test_closing_ends_a_build_between_two_steps(
    told: OneShotResult, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def endless(index: WorkspaceIndex) -> Steps:
        while True:
            begun.set()
            yield

    monkeypatch.setattr(WorkspaceIndex, "build", endless)
    repository = IndexClient(SharedIndexes(told.is_typing), told.statuses.append)
    repository.adopt(scope_of(folder, tmp_path))
    assert begun.wait(HANG) and not repository.wait(0)
    assert repository.close(HANG)


def test_a_short_question_is_answered_while_the_user_types(told: OneShotResult, folder: Path, tmp_path: Path) -> None:
    repository = IndexClient(SharedIndexes(lambda: not answered.is_set()), told.statuses.append)
    answered = threading.Event()
    answered.set()
    repository.adopt(scope_of(folder, tmp_path))
    assert repository.wait(HANG)
    answered.clear()
    repository.refresh([str(folder / "a.py")])  # which waits for a pause

    def question(files: IndexedFiles) -> Steps:
        yield
        assert files.source.definitions("total")

    assert repository.ask(question, lambda _: answered.set(), waits_for_pause=False)
    assert answered.wait(HANG)
    assert repository.close(HANG)


@pytest.mark.parametrize(("name", "found"), [("src.v2", 2), ("plain", 2), (".hidden", 0), ("node_modules", 0)])
def test_a_folder_that_is_moved_in_or_out_is_read_or_forgotten(
    repository: IndexClient, folder: Path, tmp_path: Path, name: str, found: int
) -> None:
    def files() -> int:
        assert repository.wait(HANG)
        return repository.status.files if repository.status else 0

    repository.adopt(scope_of(folder, tmp_path))
    assert files() == 2
    outside = tmp_path / "outside"
    (outside / "deep.er").mkdir(parents=True)
    for each in (outside / "c.py", outside / "deep.er" / "d.py"):
        each.write_text(CODE + f"# {each.name}\n", "utf-8")
    outside.rename(folder / name)
    repository.refresh([str(folder / name)])
    assert files() == 2 + found
    (folder / name).rename(outside)
    repository.refresh([str(folder / name)])
    assert files() == 2


def test_memory_is_given_back_after_much_work_and_not_after_little(
    repository: IndexClient, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[bool]()
    monkeypatch.setattr(module, "release_memory", lambda: given.append(True))
    repository.adopt(scope_of(folder, tmp_path))
    assert repository.wait(HANG) and len(given) == 1, "once it is built"
    (folder / "new.py").write_text("x = 1\n")
    repository.refresh([str(folder / "new.py")])
    assert repository.wait(HANG) and len(given) == 1
    monkeypatch.setattr(module, "MANY_STEPS", 2)
    (folder / "new.py").write_text("x = 2\n")
    repository.refresh([str(folder / "new.py")])
    assert repository.wait(HANG) and len(given) == 2
