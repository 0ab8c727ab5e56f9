"""Who needs which blocks when, read from a repository's history: each change of a file reads its text before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from efim_lab.gate.errors import WorkError
from efim_lab.gate.git import blobs, run_git
from efim_ls.languages.table import language_of
from kv_store.block import Name, chain, root

TOKEN_BYTES = 4  # of code, which stand for a token: names need no more than to be equal where the text is
MOST_BYTES = TOKEN_BYTES << 15  # of a file that a prompt may show
FILE = "100"  # the mode of a regular file begins with it
NO_BLOB = "0"
NO_FIRST = root(b"")


class Touch(NamedTuple):
    """A change of a file: someone reads its blocks as they are `before`, and leaves those `after`; root first."""

    time: int  # seconds
    before: Sequence[Name]
    after: Sequence[Name]


class _Change(NamedTuple):
    time: int
    before: str  # a blob; zeros if the file is new
    after: str


def read_history(repository: Path) -> list[Touch]:
    """Return the changes of all source files in a repository's history, the oldest first, without merges.

    Raises WorkError if it cannot be read.
    """
    changes = list(_changes(repository))
    with blobs(repository) as blob:

        @cache
        def names(of: str) -> Sequence[Name]:
            return () if set(of) == {NO_BLOB} else block_names(blob(of))

        found = [Touch(each.time, names(each.before), names(each.after)) for each in changes]
    if not any(each.before for each in found):
        raise WorkError(f"{repository} has no change of a source file: name a clone with its whole history")
    return found


def block_names(text: bytes) -> Sequence[Name]:
    """Return the names of a text's whole blocks: equal for two texts up to the block where they first differ."""
    whole = min(len(text), MOST_BYTES) // TOKEN_BYTES * TOKEN_BYTES
    return chain(NO_FIRST, np.frombuffer(text[:whole], np.int32))


def _changes(repository: Path) -> Iterator[_Change]:
    """Yield changes of source files; a time is never before the one before."""
    options = ("--reverse", "--raw", "--no-abbrev", "--no-renames", "--format=%ct")
    log = run_git(repository, "-c", "core.quotepath=off", "log", *options)
    time = 0
    for line in log.decode("utf-8", "replace").splitlines():
        if line.isdecimal():
            time = max(time, int(line))
        elif line.startswith(":"):
            fields, path = line[1:].split("\t", 1)
            _, mode, before, after, _ = fields.split(" ")
            if mode.startswith(FILE) and language_of(path):
                yield _Change(time, before, after)
