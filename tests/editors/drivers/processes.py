"""The descendants of a process, and how to end them."""

from __future__ import annotations

import subprocess
from contextlib import suppress

import psutil

from tests.waiting import eventually

GRACE = 5  # seconds in which a process may end by itself before it is killed
RELAY = "efim_ls/daemon/relay.py"  # how the command line ends of what an editor starts as its server


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of the living descendants, by process id."""
    return {each.pid: command_line(each) for each in below(pid) if not gone(each.pid)}


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its descendants, and wait until all are gone."""
    children = below(process.pid)
    process.terminate()
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    eventually(lambda: all(gone(child.pid) for child in children), lambda: f"some of {children} are still alive")


def below(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def command_line(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""
