"""Notes on documents: what was written is read, what is damaged is not, and there are never too many."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kv_store.notes import Notes

MOST = 4000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "notes"


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def test_what_was_written_last_is_read(folder: Path) -> None:
    notes = Notes(folder, MOST)
    assert notes.read(1) is None and not folder.exists()
    notes.write(1, b"old")
    notes.write(1, b"new" * 100)
    notes.write(2, b"other")
    assert (notes.read(1), notes.read(2), notes.read(3)) == (b"new" * 100, b"other", None)
    assert sorted(Notes(folder, MOST).documents()) == [1, 2]


def test_only_the_owner_may_look(folder: Path) -> None:
    Notes(folder, MOST).write(1, b"note")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *files(folder))] == [
        0o700,
        0o700,
        0o600,
    ]


def test_a_forgotten_one_leaves_no_file(folder: Path) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, b"note")
    notes.remove(1)
    notes.remove(1)
    assert notes.read(1) is None and files(folder) == []


def test_a_damaged_one_is_none(folder: Path) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, b"note" * 50)
    [path] = files(folder)
    whole = path.read_bytes()
    damaged = [whole[:n] for n in range(len(whole))]
    damaged += [whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in range(len(whole))]
    for content in damaged:
        path.write_bytes(content)
        assert notes.read(1) is None
    path.write_bytes(whole)
    assert notes.read(1) == b"note" * 50


def test_those_not_written_for_longest_make_room(folder: Path) -> None:
    notes = Notes(folder, MOST)
    for document in range(1, 10):
        notes.write(document, os.urandom(900))
        for age, path in enumerate(sorted(files(folder), key=lambda path: int(path.stem, 16), reverse=True)):
            os.utime(path, (1000 - age, 1000 - age))
        assert sum(path.stat().st_size for path in files(folder)) <= MOST
    assert sorted(notes.documents()) == [6, 7, 8, 9]


def test_one_that_is_larger_than_all_may_be_is_not_kept(folder: Path) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, b"small")
    notes.write(1, os.urandom(2 * MOST))
    assert notes.read(1) is None


def test_other_files_are_left_alone(folder: Path) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, b"note")
    (folder / "mine.note").write_text("x")
    assert list(notes.documents()) == [1]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Notes(tmp_path / "file" / "notes", MOST).write(1, b"note")


def test_one_that_would_fill_the_memory_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, bytes(1001))
    monkeypatch.setattr("kv_store.notes.MAX_NOTE_BYTES", 1000)
    assert notes.read(1) is None
    notes.write(1, bytes(999))
    assert notes.read(1) == bytes(999)
