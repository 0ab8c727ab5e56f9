"""Atomic writes of small files: a file is there whole or not at all, and only its owner may read it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TEMPORARY_PREFIX = ".new-"  # of files that are still being written
ABANDONED_AFTER = 60.0  # seconds; by then the writer must have been killed


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, mode 0700; raises OSError."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file, mode 0600, in place of any that is there; raises OSError and then leaves everything as it was."""
    _write_beside(path, content, os.replace)


def create_file(path: Path, content: bytes) -> None:
    """Write a file, mode 0600, that must not exist yet; raises FileExistsError if another process was faster."""
    _write_beside(path, content, _link)


def remove_abandoned(folder: Path) -> None:
    """Remove temporary files left by processes that were killed; raises OSError."""
    for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
        try:
            if time.time() - path.stat().st_mtime > ABANDONED_AFTER:
                path.unlink()
        except FileNotFoundError:  # its writer is alive and has just finished
            continue


def _link(temporary: str, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, where the last writer wins
        os.replace(temporary, path)


def _write_beside(path: Path, content: bytes, put_in_place: Callable[[str, Path], None]) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY_PREFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        put_in_place(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
