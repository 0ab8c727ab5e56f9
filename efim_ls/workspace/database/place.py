"""Where the indexes of workspaces are in the cache folder, and their files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

REPOSITORIES = "repositories"  # folder in the cache folder
SUFFIX = ".sqlite3"
SIDE_FILES = ("-wal", "-shm", "-journal")  # which SQLite puts next to a file


def index_path(cache: Path, folders: Iterable[str | Path]) -> Path:
    """Return the index's file in the cache folder for a set of workspace folders, in any order."""
    real = sorted({os.path.realpath(folder) for folder in folders})
    name = blake2b("\0".join(real).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return cache / REPOSITORIES / f"{name}{SUFFIX}"


def index_size(path: Path) -> int:
    """Return the bytes of an index's file and its side files, 0 if there is none."""
    return sum(each.stat().st_size for each in _files(path) if each.is_file())


def remove_index(path: Path) -> None:
    """Remove an index's file and its side files; raises OSError."""
    for each in _files(path):
        each.unlink(missing_ok=True)


def _files(path: Path) -> list[Path]:
    return [path, *(Path(f"{path}{suffix}") for suffix in SIDE_FILES)]
