"""Command lines: in this process, where mistakes are looked at, and in one of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.processes import forks


def status(main: Callable[[Sequence[str]], int], argv: Sequence[str]) -> int | str | None:
    """The exit status of a program's `main`, whether it returns or exits."""
    try:
        return main(argv)
    except SystemExit as exit:
        return exit.code


def run(
    program: str, *argv: str, env: Mapping[str, str] = os.environ, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A program's finished process, a fork, with no terminal and no input."""
    return forks.run(("-m", program, *argv), env, folder)
