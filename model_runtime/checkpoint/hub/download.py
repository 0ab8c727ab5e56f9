"""Downloads one file, resumes where an earlier attempt ended, and verifies it by its SHA-256.

The hub's own client (2.4) does neither: each attempt writes to a new temporary file and starts at the first byte, a
killed attempt leaves its file behind, and a file of the right size is taken whatever it holds.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from model_runtime.errors import ModelError

PIECE_BYTES = 1 << 20  # bytes that are hashed at once
READ_TIMEOUT = 10.0  # seconds without a byte until a connection counts as lost
TRIES, PAUSE = 5, 1.0  # attempts in a row that bring nothing before giving up, and seconds between them

T = TypeVar("T")
Report = Callable[[int], None]  # takes the number of new bytes; an exception ends the download, whose bytes are kept


class RemoteFile(NamedTuple):
    """A file's address, with its expected size in bytes and SHA-256."""

    url: str
    headers: Mapping[str, str]
    size: int
    sha256: str


def download(source: RemoteFile, path: Path, lock: Path, report: Report, most: int | None = None) -> Path:
    """Download a file to a path, where it appears once it is whole and verified; the lock keeps other servers off.

    With `most`, stop once that number of bytes is here; a later download resumes there. Return the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(lock, report):
        if path.exists():
            report(source.size)
            return path
        partial = incomplete_path(path)
        report(_size(partial))
        if _size(partial) < min(most or source.size, source.size):
            end = most or source.size + 1  # a file that has more is damaged, and may never end
            retry(lambda: _stream(source, partial, report, end), report, lambda: _size(partial))
        if most:
            return partial
        if _digest(partial, report) != source.sha256:
            partial.unlink()
            raise ModelError(f"what came from {source.url} is damaged and was removed: fetch it again")
        return partial.replace(path)


def retry(ask: Callable[[], T], report: Report, come: Callable[[], int] = lambda: 0) -> T:
    """Retry when a connection breaks, until TRIES attempts in a row bring nothing; `come` counts received bytes."""
    import httpx2

    fruitless = 0
    while True:
        before = come()
        try:
            return ask()
        except httpx2.TransportError:
            fruitless = 0 if come() > before else fruitless + 1
            if fruitless == TRIES:
                raise
            report(0)
            time.sleep(PAUSE)


def incomplete_path(path: Path) -> Path:
    """Return where a file is stored until it is whole, by a suffix that the hub's own tools recognize."""
    return path.with_name(f"{path.name}.incomplete")


@contextmanager
def _locked(lock: Path, report: Report) -> Generator[None]:
    from filelock import FileLock, Timeout

    lock.parent.mkdir(parents=True, exist_ok=True)
    held = FileLock(lock)
    while not held.is_locked:
        try:
            held.acquire(timeout=PAUSE)
        except Timeout:
            report(0)
    try:
        yield
    finally:
        held.release()


def _stream(source: RemoteFile, partial: Path, report: Report, most: int) -> None:
    from huggingface_hub import get_session
    from huggingface_hub.utils import hf_raise_for_status

    come = _size(partial)
    asked = {**source.headers, "accept-encoding": "identity"} | ({"range": f"bytes={come}-"} if come else {})
    with (
        get_session().stream("GET", source.url, headers=asked, timeout=READ_TIMEOUT) as response,
        partial.open("ab") as out,
    ):
        hf_raise_for_status(response)
        if come and response.status_code != 206:  # the server sends all of it again
            out.truncate(0)
            report(-come)
            come = 0
        for piece in response.iter_bytes():
            out.write(piece)
            report(len(piece))
            come += len(piece)
            if come >= most:
                return


def _digest(path: Path, report: Report) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            report(0)
    return digest.hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
