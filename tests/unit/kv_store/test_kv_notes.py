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


def test_the_note_written_last_is_read(folder: Path) -> None:
    notes = Notes(folder, MOST)
    assert notes.read(1) is None and not folder.exists()
    notes.write(1, b"old")
    notes.write(1, b"new" * 100)
    notes.write(2, b"other")
    assert (notes.read(1), notes.read(2), notes.read(3)) == (b"new" * 100, b"other", None)
    assert sorted(Notes(folder, MOST).documents()) == [1, 2]


def test_only_the_owner_can_read_notes(folder: Path) -> None:
    Notes(folder, MOST).write(1, b"note")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *files(folder))] == [
        0o700,
        0o700,
        0o600,
    ]


def test_a_removed_note_leaves_no_file(folder: Path) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, b"note")
    notes.remove(1)
    notes.remove(1)
    assert notes.read(1) is None and files(folder) == []


def test_a_damaged_note_is_missing(folder: Path) -> None:
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


def test_the_oldest_notes_make_room(folder: Path) -> None:
    notes = Notes(folder, MOST)
    for document in range(1, 10):
        notes.write(document, os.urandom(900))
        for age, path in enumerate(sorted(files(folder), key=lambda path: int(path.stem, 16), reverse=True)):
            os.utime(path, (1000 - age, 1000 - age))
        assert sum(path.stat().st_size for path in files(folder)) <= MOST
    assert sorted(notes.documents()) == [6, 7, 8, 9]


def test_a_note_larger_than_the_limit_is_not_written(folder: Path) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, b"small")
    notes.write(1, os.urandom(2 * MOST))
    assert notes.read(1) is None


def test_other_files_are_left_alone(folder: Path) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, b"note")
    (folder / "mine.note").write_text("x")
    assert list(notes.documents()) == [1]


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Notes(tmp_path / "file" / "notes", MOST).write(1, b"note")


def test_a_note_that_would_fill_the_memory_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes(folder, MOST)
    notes.write(1, bytes(1001))
    monkeypatch.setattr("kv_store.notes.MAX_NOTE_BYTES", 1000)
    assert notes.read(1) is None
    notes.write(1, bytes(999))
    assert notes.read(1) == bytes(999)
