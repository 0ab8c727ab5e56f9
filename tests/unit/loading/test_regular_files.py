"""Files that are read whole: none that has no end, or that nobody writes to."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from efim_lab.gate.documents import read_documents
from efim_lab.gate.errors import WorkError
from model_runtime.regular_files import MIB, UnfitFile, check_regular, read_regular


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to(os.devnull),
    "pipe": lambda path: os.mkfifo(path),
    "socket": listen,
}


@pytest.mark.skipif(os.name != "posix", reason="other systems have none of these")
@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_regular_file_is_not_opened(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets have to be short
    IRREGULAR[kind](path := Path("it"))
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("it was opened"))  # pyright: ignore
    for read in (check_regular, lambda path: read_regular(path, MIB)):
        with pytest.raises(UnfitFile, match="^it is not a regular file$"):
            read(path)


@pytest.mark.skipif(os.name != "posix", reason="other systems have no pipes with names")
def test_a_file_that_becomes_a_pipe_holds_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pipe = tmp_path / "file", tmp_path / "pipe"
    path.write_text("x")
    os.mkfifo(pipe)
    opening = os.open
    monkeypatch.setattr(os, "open", lambda _, flags: opening(pipe, flags))  # pyright: ignore
    with pytest.raises(UnfitFile, match="not a regular file"):
        read_regular(path, MIB)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(UnfitFile, match="^it is larger than 4 bytes$"):
        read_regular(path, 4)
    os.truncate(path, 2 * MIB + 1)
    with pytest.raises(UnfitFile, match="^it is larger than 2 MiB$"):
        read_regular(path, 2 * MIB)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux has files without a size")
def test_a_file_that_does_not_say_its_size_is_bounded_too() -> None:
    assert read_regular(Path("/proc/self/status"), MIB)
    with pytest.raises(UnfitFile, match="larger than 9 bytes"):
        read_regular(Path("/proc/self/status"), 9)


def test_documents_to_measure_with_are_not_read_from_a_device() -> None:
    with pytest.raises(WorkError, match=r"it is not a regular file\): make it with"):
        read_documents(Path(os.devnull))
