"""Reads files that a user or a model's folder names: regular ones of a bounded size.

A pipe would hold its reader until a writer comes, a device may never end, and either stands where a file is expected
only by mistake or malice.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MIB = 1 << 20
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


class UnfitFile(OSError):
    """A file that is not read; the message is a clause that says why, `it is not a regular file`."""


def check_regular(path: Path) -> None:
    """Raise UnfitFile if a path leads to anything but a regular file, OSError if it leads nowhere."""
    _check(os.stat(path))


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes; raises UnfitFile or another OSError."""
    check_regular(path)  # opening alone may do something to a device
    descriptor = os.open(path, FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        _check(state)  # it may have been replaced
        content = b"" if state.st_size > most else file.read(most + 1)
    if max(state.st_size, len(content)) > most:
        raise UnfitFile(
            f"it is larger than {most // MIB:,} MiB" if most >= MIB else f"it is larger than {most:,} bytes"
        )
    return content


def _check(state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise UnfitFile("it is not a regular file")
