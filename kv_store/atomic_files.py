"""Small files that are written whole or not at all, for their owner's eyes only."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

NEW = ".new-"  # begins the names of files that are not whole yet
ABANDONED_AFTER = 60.0  # seconds: who wrote it was killed


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, mode 0700; raises OSError."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file, mode 0600, beside its place and move it there; raises OSError, and then leaves no trace."""
    _write_beside(path, content, os.replace)


def new_file(path: Path, content: bytes) -> None:
    """The same where there is no file yet; raises FileExistsError where somebody else was faster."""
    _write_beside(path, content, _link)


def remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed have left half written; raises OSError."""
    for path in folder.glob(f"{NEW}*"):
        try:
            if time.time() - path.stat().st_mtime > ABANDONED_AFTER:
                path.unlink()
        except FileNotFoundError:  # its writer is alive, and done
            continue


def _link(temporary: str, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, where the last writer wins
        os.replace(temporary, path)


def _write_beside(path: Path, content: bytes, put_in_place: Callable[[str, Path], None]) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=NEW)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        put_in_place(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
