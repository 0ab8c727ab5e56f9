"""The descendants of a process, from /proc, and how to end them."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from .waiting import eventually


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of the living descendants, by process id."""
    parents = {child: parent for child, parent in map(parent_of, processes()) if parent}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {child: command_line(child) for child in found - {pid}}


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its descendants, and wait until all are gone."""
    below = descendants(process.pid)
    process.terminate()
    for pid in below:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    eventually(lambda: all(gone(pid) for pid in below), lambda: f"some of {below} are still alive")


def processes() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def parent_of(pid: int) -> tuple[int, int]:
    """Return the process and its parent; 0 if it is dead."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return pid, 0
    return pid, 0 if state == "Z" else int(parent)


def gone(pid: int) -> bool:
    return not parent_of(pid)[1]


def command_line(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    return ""
