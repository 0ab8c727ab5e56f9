"""Planted secrets are looked for in the raw bytes of all files in the cache folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from efim_ls.access.rules import Rules
from efim_ls.settings import Settings
from efim_ls.workspace import index as workspace_index
from efim_ls.workspace import index_file
from efim_ls.workspace.index import Scope, WorkspaceIndex
from efim_ls.workspace.index_file import IndexFile
from tests.unit.workspace_index.conftest import ORIGIN, TOKENIZER, TOKENIZERS, Open, has_name, indexed

# A name, so that it stands in words, outlines and token ids; a short word could stand among random bytes by chance.
SECRET = "hunter_seventh_password"
WORDS = SECRET.split("_")
SOURCE = f"import {SECRET}_module\n\n\nclass {SECRET}:\n    {SECRET}_field = 1\n" * 30


def update(index: IndexFile, folder: Path, settings: Settings) -> None:
    scope = Scope.of(settings, Rules(settings, [folder.as_uri()]), [folder], TOKENIZERS)
    take(WorkspaceIndex(scope, index).build())


def take(steps: Iterable[None]) -> None:
    for _ in steps:
        pass


def traces(cache: Path, secrets: Collection[str] = WORDS) -> set[str]:
    """Which words stand in any file, in any case, as text or as token ids of two bytes."""
    found = set[str]()
    for path in (each for each in cache.rglob("*") if each.is_file()):
        raw = path.read_bytes()
        found |= {word for word in secrets if re.search(word.encode(), raw, re.IGNORECASE)}
        ids = TOKENIZER.encode(f"class {SECRET}:\n")[1:-2].astype("<u2").tobytes()
        found |= {"token ids"} if ids in raw else set()
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "plain.py").write_text("def plain_name(): pass\n")
    return folder


def test_a_trace_would_be_found(place: Path, open_index: Open, folder: Path) -> None:
    (folder / "a.py").write_text(SOURCE)
    update(open_index(), folder, Settings())
    assert traces(place.parent) == {*WORDS, "token ids"}


@pytest.mark.parametrize(
    "name, settings",
    [
        ("secrets.py", Settings()),
        (".ssh/a.py", Settings()),
        ("client/a.py", Settings(private_files=("*/client/*",))),
        ("client/a.py", Settings(disabled_files=("*/client/*",))),
        ("client/a.py", Settings(private_files=("*/client",))),
        ("a.go", Settings(disabled_languages=("go",))),
    ],
)
def test_what_must_not_be_kept_never_reaches_the_disk(
    name: str, settings: Settings, place: Path, open_index: Open, folder: Path
) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(SOURCE)
    index = open_index()
    update(index, folder, settings)
    assert traces(place.parent) == set() and has_name(index, "plain_name")
    assert has_name(index, SECRET) == bool(settings.private_files), "private files are known in memory"
    index.close()
    assert traces(place.parent) == set() and not has_name(open_index(), SECRET)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(private_files=("*/a.py",)),
        Settings(disabled_files=("*/a.py",)),
        Settings(disabled_files=("*/project",)),
        Settings(enabled=False),
    ],
)
def test_what_becomes_excluded_leaves_at_once(
    settings: Settings, place: Path, open_index: Open, folder: Path
) -> None:
    """With its log, while another server has the index open."""
    (folder / "a.py").write_text(SOURCE)
    index, other = open_index(), open_index()
    update(index, folder, Settings())
    assert has_name(other, SECRET) and traces(place.parent)
    update(index, folder, settings)
    assert traces(place.parent) == set() and not has_name(other, SECRET)
    assert has_name(index, SECRET) == bool(settings.private_files)


def test_earlier_texts_of_an_excluded_file_leave_too(place: Path, open_index: Open, folder: Path) -> None:
    index, path = open_index(), folder / "a.py"
    for text in (SOURCE, "# nothing is secret now\n"):
        path.write_text(text)
        update(index, folder, Settings())
    update(index, folder, Settings(disabled_files=("*/a.py",)))
    assert traces(place.parent) == set()


def test_a_file_that_was_renamed_or_deleted_before_leaves_too(place: Path, open_index: Open) -> None:
    index = open_index()
    index.put([indexed("/project/a.py", SOURCE), indexed("/project/b.py", "x = 1")])
    index.remove(["/project/a.py"], for_good=False)
    assert traces(place.parent), "kept in case that it was renamed"
    index.remove([], for_good=True)
    assert traces(place.parent) == set() and index.entries().keys() == {"/project/b.py"}


@pytest.mark.parametrize("name", [None, ".env.local", "id_rsa", "ignored/a.py"])
def test_the_text_of_a_file_that_is_deleted_or_renamed_leaves_at_once(
    name: str | None, place: Path, open_index: Open, folder: Path
) -> None:
    (folder / "ignored").mkdir()
    (folder / ".gitignore").write_text("ignored/\n")
    (folder / "a.py").write_text(SOURCE)
    scope = Scope.of(Settings(), Rules(Settings(), [folder.as_uri()]), [folder], TOKENIZERS)
    index = WorkspaceIndex(scope, open_index())
    take(index.build())
    assert traces(place.parent)
    changed = [folder / "a.py"]
    if name is None:
        changed[0].unlink()
    else:
        changed.append(changed[0].rename(folder / name))
    take(index.refresh([str(path) for path in changed]))
    assert traces(place.parent) == set()


def test_a_file_that_is_renamed_while_it_is_indexed_is_not_derived_again(
    place: Path, open_index: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.py").write_text(SOURCE)
    scope = Scope.of(Settings(), Rules(Settings(), [folder.as_uri()]), [folder], TOKENIZERS)
    index = WorkspaceIndex(scope, open_index())
    take(index.build())
    monkeypatch.setattr(workspace_index, "content_of", lambda *_: pytest.fail("it is derived again"))
    (folder / "a.py").rename(folder / "b.py")
    take(index.refresh([str(folder / "a.py"), str(folder / "b.py")]))
    assert has_name(open_index(), SECRET) and "token ids" in traces(place.parent)


def test_the_same_text_in_an_allowed_file_stays(open_index: Open) -> None:
    index = open_index()
    index.put([indexed("/project/a.py", SOURCE), indexed("/project/b.py", SOURCE)])
    index.remove(["/project/a.py"], for_good=True)
    assert has_name(index, SECRET) and index.entries().keys() == {"/project/b.py"}


def test_without_a_path_nothing_is_written(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    (folder / "a.py").write_text(SOURCE)
    index = IndexFile(None, ORIGIN, TOKENIZERS, pytest.fail, keeps="passages")
    update(index, folder, Settings())
    assert has_name(index, SECRET) and not cache.exists()
    index.close()


def test_only_the_owner_may_read(place: Path, open_index: Open, folder: Path) -> None:
    update(open_index(), folder, Settings())
    files = list(place.parent.iterdir())
    assert {each.suffix for each in files} == {".sqlite3", ".sqlite3-wal", ".sqlite3-shm"}
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600} and place.parent.stat().st_mode & 0o777 == 0o700


def test_one_file_is_removed_by_command(place: Path, open_index: Open) -> None:
    index = open_index()
    index.put([indexed("/project/a.py", SOURCE), indexed("/project/b.py", "x = 1")])
    index.close()
    assert index_file.remove_file(place, "/project/a.py") and not index_file.remove_file(place, "/project/a.py")
    assert traces(place.parent) == set() and open_index().entries().keys() == {"/project/b.py"}
