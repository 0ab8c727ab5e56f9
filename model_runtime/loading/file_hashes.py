"""Hashes the files of a model, and remembers the hashes of files that have not changed since."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from model_runtime.errors import ModelError

PART = 1 << 20  # bytes that are read at a time: the GIL is free while they are hashed
MOST_REMEMBERED = 256  # files; the oldest are forgotten

Remembered = dict[str, list[object]]  # by path: what the system says about the file, and its hash in hexadecimal

logger = logging.getLogger(__name__)


class Memo(Protocol):
    """A text kept between runs, as it takes long to compute; `str` names its place in the log."""

    def read(self) -> str:
        """Return the value written last; raises OSError."""
        ...

    def write(self, text: str, /) -> None:
        """Replace the value; raises OSError."""
        ...


def start_hashing(files: Sequence[Path], notes: Memo | None = None) -> Future[list[bytes]]:
    """Start hashing files (SHA-256) on another thread, a second for each 1.5 GB of which `notes` hold no hash.

    Once the future is cancelled, that soon stops.
    """
    hashed = Future[list[bytes]]()

    def work() -> None:
        try:
            answer = partial(hashed.set_result, _hashes(files, notes, hashed.cancelled))
        except CancelledError:
            return
        except Exception as error:  # whatever it is, the waiting thread gets it
            answer = partial(hashed.set_exception, error)
        if hashed.set_running_or_notify_cancel():
            answer()

    # A daemon: it must not keep the process alive.
    try:
        threading.Thread(target=work, name="hashing", daemon=True).start()
    except RuntimeError:  # the system has no thread left, or no memory for its stack
        work()
    return hashed


def _hashes(files: Sequence[Path], notes: Memo | None, is_cancelled: Callable[[], bool]) -> list[bytes]:
    """Return the hash of each file; raises CancelledError soon after it is cancelled."""
    kept, made, found = _read(notes), Remembered(), list[bytes]()
    for path in files:
        name, before = str(path.resolve()), _identity(path)
        found.append(_known(kept.get(name), before) or _hash(path, is_cancelled))
        if before == _identity(path):  # else it was written meanwhile
            made[name] = [*before, found[-1].hex()]
    if notes and any(kept.get(name) != each for name, each in made.items()):
        latest = _read(notes)  # another server may have written meanwhile
        _write(notes, {name: each for name, each in latest.items() if name not in made} | made)
    return found


def _identity(path: Path) -> list[object]:
    """Return the properties that change with a file's content: size, times of its last changes, inode."""
    try:
        state = path.stat()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def _known(kept: list[object] | None, identity: list[object]) -> bytes | None:
    """Return the hash that was kept of a file, if the file is still the same."""
    if kept is None or kept[:-1] != identity or not isinstance(kept[-1], str):
        return None
    try:
        digest = bytes.fromhex(kept[-1])
    except ValueError:
        return None
    return digest if len(digest) == hashlib.sha256().digest_size else None


def _read(notes: Memo | None) -> Remembered:
    """Return the stored hashes; none if they cannot be read, and then files are hashed."""
    try:
        found: object = json.loads(notes.read()) if notes else {}
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    entries = cast("dict[str, object]", found).items()
    return {name: cast("list[object]", each) for name, each in entries if isinstance(each, list) and each}


def _write(notes: Memo, kept: Remembered) -> None:
    try:
        notes.write(json.dumps(dict([*kept.items()][-MOST_REMEMBERED:]), indent=1))
    except OSError as error:
        logger.info("hashes of weights cannot be written to %s (%s): they are made at every start", notes, error)


def _hash(path: Path, is_cancelled: Callable[[], bool]) -> bytes:
    digest, part = hashlib.sha256(), memoryview(bytearray(PART))
    try:
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(part):
                digest.update(part[:size])
                if is_cancelled():
                    raise CancelledError
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    return digest.digest()
