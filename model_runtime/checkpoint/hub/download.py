"""Fetches one file, and goes on where an earlier try ended: the hub's own client begins anew after a restart."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from model_runtime.errors import ModelError

PIECE_BYTES = 1 << 20  # bytes that are checked at once
READ_TIMEOUT = 10.0  # seconds without a byte after which a connection counts as lost
TRIES, PAUSE = 5, 1.0  # tries in a row that bring nothing before it is given up, and seconds between them

T = TypeVar("T")
Report = Callable[[int], None]  # of bytes that have come; what it raises ends the fetching, and they stay


class Source(NamedTuple):
    """Where a file is, and what it must be: its size in bytes and the SHA-256 of its content."""

    url: str
    headers: Mapping[str, str]
    size: int
    sha256: str


def download(source: Source, path: Path, lock: Path, report: Report) -> None:
    """Have a file at a path, where it appears once it is whole and right; the lock keeps other servers off it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(lock, report):
        if path.exists():
            report(source.size)
            return
        partial = incomplete_path(path)
        report(_size(partial))
        if _size(partial) < source.size:
            retry(lambda: _stream(source, partial, report), report, lambda: _size(partial))
        if _digest(partial, report) != source.sha256:
            partial.unlink()
            raise ModelError(f"what came from {source.url} is damaged and was removed: fetch it again")
        partial.replace(path)


def retry(ask: Callable[[], T], report: Report, come: Callable[[], int] = lambda: 0) -> T:
    """Ask again where a connection breaks off, until many tries in a row bring nothing; `come` counts what came."""
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
    """Where a file is until it is whole; by its ending the hub's own tools know what it is."""
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


def _stream(source: Source, partial: Path, report: Report) -> None:
    from huggingface_hub import get_session
    from huggingface_hub.utils import hf_raise_for_status

    come = _size(partial)
    asked = {**source.headers, "accept-encoding": "identity"} | ({"range": f"bytes={come}-"} if come else {})
    with (
        get_session().stream("GET", source.url, headers=asked, timeout=READ_TIMEOUT) as response,
        partial.open("ab") as out,
    ):
        hf_raise_for_status(response)
        if come and response.status_code != 206:  # all of it comes again
            out.truncate(0)
            report(-come)
            come = 0
        for piece in response.iter_bytes():
            out.write(piece)
            report(len(piece))
            come += len(piece)
            if come > source.size:  # it is damaged however it goes on, and may never end
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
