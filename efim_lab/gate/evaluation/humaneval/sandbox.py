"""Runs programs written by a model, each in its own process under limits; `guard` says what that protects from."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.humaneval import guard

PATIENCE = 60.0  # seconds until a program is ended that uses no processor time


def check() -> None:
    """Raise WorkError if the system cannot limit a process."""
    if find_spec("resource") is None:
        raise WorkError("this system cannot limit the resources of a model's programs: leave out --humaneval")


def passes(program: str) -> bool:
    """Return whether a program, without input and output, ends without an exception and within its limits."""
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
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == guard.PASSED
