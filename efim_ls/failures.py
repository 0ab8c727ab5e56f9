"""Why a command failed, for its one-line message and its exit status, and the place in a file that it was given."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Failure(Exception):
    """A command failed; the message says why."""

    status = 1


class Mistake(Failure):
    """The user made a mistake; the message says what to correct."""

    status = 2


class FilePlace(NamedTuple):
    """A cursor in a file, both counted from 1 as users count."""

    path: Path
    line: int
    column: int
