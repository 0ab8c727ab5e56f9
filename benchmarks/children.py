"""What the processes that this one started take, from /proc: Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def children_seconds() -> float:
    """Return the CPU seconds of all children of this process that live."""
    return sum(int(fields[11]) + int(fields[12]) for fields in _children()) / TICKS


def children_mib() -> float:
    """Return the MiB in memory of all children of this process."""
    return sum(int(fields[21]) for fields in _children()) * PAGE / 2**20


def others_seconds() -> float:
    """Return the CPU seconds of all programs but this process and its children."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    ours = children_seconds() + os.times().user + os.times().system
    return (int(user) + int(nice) + int(system)) / TICKS - ours


def _children() -> Iterator[list[str]]:
    """Yield the fields of each child in /proc, from its state on."""
    mine = str(os.getpid())
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it may have ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            if fields[1] == mine:
                yield fields
