"""Small files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kv_store.atomic_files import ABANDONED_AFTER, TEMPORARY_PREFIX, create_file, remove_abandoned, replace_file


def left_behind(folder: Path, name: str, seconds: float) -> Path:
    """A temporary file that was last written `seconds` ago."""
    path = folder / f"{TEMPORARY_PREFIX}{name}"
    path.touch()
    os.utime(path, (then := path.stat().st_mtime - seconds, then))
    return path


def test_only_old_temporary_files_are_removed(tmp_path: Path) -> None:
    old, young = left_behind(tmp_path, "old", ABANDONED_AFTER * 2), left_behind(tmp_path, "young", 0)
    kept = tmp_path / "kept"
    kept.touch()
    os.utime(kept, (0, 0))
    remove_abandoned(tmp_path)
    assert not old.exists()
    assert young.exists() and kept.exists()


def test_a_temporary_file_that_its_writer_takes_away_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = left_behind(tmp_path, "old", ABANDONED_AFTER * 2)
    gone = tmp_path / f"{TEMPORARY_PREFIX}gone"
    monkeypatch.setattr(Path, "glob", lambda *_: iter((gone, old)))
    remove_abandoned(tmp_path)
    assert not old.exists()


def test_a_file_is_created_once(tmp_path: Path) -> None:
    create_file(tmp_path / "a", b"first")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "a", b"second")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a", b"first")]


def test_where_files_cannot_be_linked_the_last_writer_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    create_file(tmp_path / "a", b"first")
    create_file(tmp_path / "a", b"second")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a", b"second")]


def test_a_failed_replacement_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EACCES, "in use")

    replace_file(tmp_path / "a", b"first")
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="in use"):
        replace_file(tmp_path / "a", b"second")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a", b"first")]
