"""Hashing weights beside other work, and remembering the hashes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from efim_ls.completion.models.kv_persistence import CacheFile
from model_runtime.errors import ModelError
from model_runtime.loading import file_hashes
from model_runtime.loading.file_hashes import MOST_REMEMBERED, start_hashing
from tests.waiting import HANG, threads_end


def test_files_are_hashed_in_their_order(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    hashed = start_hashing([tmp_path / "b", tmp_path / "a"]).result(HANG)
    assert hashed == [hashlib.sha256(content).digest() for content in (b"b", b"a")]


def test_a_file_that_cannot_be_read_is_an_error_for_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="fetch the model again"):
        start_hashing([tmp_path / "none"]).result(HANG)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_process_ends_without_waiting_for_hashes(tmp_path: Path) -> None:
    os.mkfifo(endless := tmp_path / "endless")
    imports = "from pathlib import Path; from model_runtime.loading.file_hashes import start_hashing"
    code = f"{imports}; start_hashing([Path({str(endless)!r})])"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)


def test_hashing_stops_once_it_is_cancelled(tmp_path: Path) -> None:
    (endless := tmp_path / "endless").touch()
    os.truncate(endless, 1 << 40)  # a hole, which takes no room on the disk
    hashed = start_hashing([endless])
    assert hashed.cancel()
    threads_end("hashing")


class Home:
    """A file of weights and the notes about it; `read` counts how often the file was hashed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.notes, self.read = folder / "weights", folder / "cache" / "hashes.json", 0
        self.file.write_bytes(b"before")
        real = file_hashes._hash

        def counted(path: Path, is_cancelled: Callable[[], bool]) -> bytes:
            self.read += 1
            return real(path, is_cancelled)

        monkeypatch.setattr(file_hashes, "_hash", counted)

    def hashed(self) -> bool:
        """Hash the file; whether it had to be read."""
        before = self.read
        [found] = start_hashing([self.file], CacheFile(self.notes)).result(HANG)
        assert found == hashlib.sha256(self.file.read_bytes()).digest()
        return self.read > before


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path, monkeypatch)


def test_a_file_that_is_still_the_same_is_not_read_again(home: Home) -> None:
    assert [home.hashed() for _ in range(3)] == [True, False, False]
    if os.name == "posix":
        assert stat.S_IMODE(home.notes.stat().st_mode) == 0o600


def resize(home: Home) -> None:
    home.file.write_bytes(b"after, and longer")


def rewrite(home: Home) -> None:
    """Another content of the same size in the same inode, with the same time of its change."""
    before = home.file.stat()
    while home.file.stat().st_ctime_ns == before.st_ctime_ns:
        home.file.write_bytes(b"after!")
        os.utime(home.file, ns=(before.st_atime_ns, before.st_mtime_ns))


def touch(home: Home) -> None:
    os.utime(home.file, ns=(1, 1))


def replace(home: Home) -> None:
    (other := home.file.with_name("other")).write_bytes(b"after!")
    other.replace(home.file)


@pytest.mark.parametrize("change", [resize, rewrite, touch, replace])
def test_a_file_that_changed_is_hashed_again(home: Home, change) -> None:
    home.hashed()
    change(home)
    assert [home.hashed(), home.hashed()] == [True, False]


@pytest.mark.parametrize("place", range(4), ids=["size", "time of writing", "time of any change", "inode"])
def test_each_thing_that_is_remembered_of_a_file_counts(home: Home, place: int) -> None:
    home.hashed()
    kept = json.loads(home.notes.read_text())
    kept[str(home.file)][place] += 1
    home.notes.write_text(json.dumps(kept))
    assert home.hashed()


DAMAGES = {
    "nothing": b"", "no JSON": b"{", "no text": b"\xff", "a list": b"[]", "too deep": b"[" * 100_000,
    "no list": b'{"PATH": 5}', "an empty list": b'{"PATH": []}', "no hash": b'{"PATH": [1, 2, 3, 4]}',
    "half of a hash": b'{"PATH": [SAME, "00ff"]}', "no number": b'{"PATH": [SAME, "hash"]}',
    "null": b'{"PATH": [SAME, null]}',
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_notes_mean_hashing_again_and_are_mended(home: Home, damage: str) -> None:
    home.hashed()
    same = json.dumps(json.loads(home.notes.read_text())[str(home.file)][:-1])[1:-1]
    text = DAMAGES[damage].replace(b"PATH", str(home.file).encode()).replace(b"SAME", same.encode())
    home.notes.write_bytes(text)
    assert [home.hashed(), home.hashed()] == [True, False]


def test_a_file_that_is_written_while_it_is_hashed_is_not_remembered(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = file_hashes._hash

    def meanwhile(path: Path, is_cancelled: Callable[[], bool]) -> bytes:
        found = real(path, is_cancelled)
        resize(home)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(file_hashes, "_hash", meanwhile)
        start_hashing([home.file], CacheFile(home.notes)).result(HANG)
    assert home.hashed()


def test_notes_that_cannot_be_written_are_no_failure(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.notes.mkdir(parents=True)
    caplog.set_level(logging.INFO)
    assert [home.hashed(), home.hashed()] == [True, True]
    assert str(home.notes) in caplog.text


def test_notes_of_other_files_survive_but_the_oldest(home: Home) -> None:
    home.notes.parent.mkdir()
    home.notes.write_text(json.dumps({f"/{i}": [1, 2, 3, 4, "00"] for i in range(MOST_REMEMBERED)}))
    home.hashed()
    kept = json.loads(home.notes.read_text())
    assert list(kept) == [*(f"/{i}" for i in range(1, MOST_REMEMBERED)), str(home.file)]
