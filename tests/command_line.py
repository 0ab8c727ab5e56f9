"""Command lines as users run them: in this process, where mistakes are looked at, and in one of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence


def status(main: Callable[[Sequence[str]], int], argv: Sequence[str]) -> int | str | None:
    """The exit status of a program's `main`, whether it returns or exits."""
    try:
        return main(argv)
    except SystemExit as exit:
        return exit.code


def run(program: str, *argv: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """A program's finished process, which may take so many seconds."""
    command = [sys.executable, "-m", program, *argv]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=seconds)
