"""Runs git, for what the laboratory reads of repositories and makes of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from efim_lab.gate.errors import WorkError


def run_git(repository: Path, *arguments: str) -> bytes:
    """Return what git prints in a repository; raises WorkError with its reason."""
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise WorkError("histories are read with git, which is not installed: install it") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise WorkError(
            f"{repository} has no history ({reason[0] if reason else 'git failed'}): name a git repository"
        )
    return done.stdout


@contextmanager
def blobs(repository: Path) -> Generator[Callable[[str], bytes]]:
    """Give a function that returns a blob's bytes by its name."""
    command = ["git", "-C", str(repository), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        asked, told = process.stdin, process.stdout
        assert asked is not None and told is not None
        yield lambda name: _blob(name, asked, told)


def _blob(name: str, asked: IO[bytes], told: IO[bytes]) -> bytes:
    asked.write(f"{name}\n".encode())
    asked.flush()
    header = told.readline().split()
    if len(header) != 3:
        raise WorkError(f"a blob of the history is missing ({name}): name a clone that is not partial")
    data = told.read(int(header[2]))
    told.read(1)
    return data
