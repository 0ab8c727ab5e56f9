"""Runs programs that a model wrote, each in a process of its own under limits; see `guard` for what that is worth."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from efim_lab.errors import WorkError
from efim_lab.evaluation.humaneval import guard


def check() -> None:
    """WorkError where the system cannot limit a process."""
    if find_spec("resource") is None:
        raise WorkError("this system cannot limit what a model's programs take: leave out --humaneval")


def passes(program: str) -> bool:
    """Whether a program runs to its end without an exception, within its limits; it gets no input and no output."""
    command = [sys.executable, "-I", "-S", "-B", guard.__file__]
    with TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command,
                input=program.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={},
                timeout=guard.SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == guard.PASSED
