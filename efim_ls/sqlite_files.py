"""Creates SQLite files that only their owner may read, and tells damage from other failures."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from kv_store.atomic_files import make_folder

# Errors of the disk, of other processes or of this machine's memory; any other error comes from a damaged file.
NO_DAMAGE_CODES = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
)


def create_for_owner(path: Path) -> int:
    """Create a file and its folder where they are missing, and return the file's inode.

    It is the owner's alone (0600), and the side files that SQLite makes inherit that.

    Raises OSError.
    """
    make_folder(path.parent)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def is_damage(error: Exception, path: Path) -> bool:
    """Return whether an error of SQLite comes from a damaged file."""
    if isinstance(error, OSError):
        return False
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the upper bits only refine the code
        if code == sqlite3.SQLITE_READONLY:  # a damaged header may say so
            return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        return code not in NO_DAMAGE_CODES
    return isinstance(error, (ValueError, OverflowError))
