"""Changed files of a git repository's history, newest commit first."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from efim_lab.gate.git import blobs, run_git

LARGEST = 400_000  # bytes of a file that is read
HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
HEAD = re.compile(rb"index ([0-9a-f]+)\.\.[0-9a-f]+")


class LineRewrite(NamedTuple):
    """A line, counted from 0, that a commit wrote anew."""

    line: int
    before: str
    after: str


class ChangedFile(NamedTuple):
    """A file's text before a commit, the lines that it rewrote one by one, and those that it changed otherwise."""

    commit: str
    path: str
    blob: str
    rewrites: tuple[LineRewrite, ...]
    others: frozenset[int]


class Repository:
    """A repository, with a work tree or bare, whose history git reads."""

    def __init__(self, folder: Path) -> None:
        """Read a folder's; WorkError once it is read and holds none."""
        self._folder = folder
        self.name = folder.parent.name if folder.name == "repo" else folder.name

    def changed_files(self, endings: tuple[str, ...], most: int) -> Iterator[ChangedFile]:
        """Yield the files with such names that the last commits changed, merges aside."""
        options = ["--no-merges", "--no-renames", "--no-color", "--no-ext-diff", "--full-index", "-U0", "-p"]
        options += [f"--max-count={most}", "--diff-filter=M", "--format=commit %H"]
        paths = ["--", *(f"*{ending}" for ending in endings)]
        log = run_git(self._folder, "log", *options, *paths)
        commit = path = blob = b""
        hunks, others = list[LineRewrite](), set[int]()
        old, new, line = list[bytes](), list[bytes](), 0

        def close_hunk() -> None:
            if len(old) == len(new):
                pairs = zip(old, new, strict=True)
                hunks.extend(LineRewrite(line + i, _text(a), _text(b)) for i, (a, b) in enumerate(pairs))
            else:
                others.update(range(line, line + len(old)))
            old.clear()
            new.clear()

        for row in [*log.split(b"\n"), b"commit "]:
            if row.startswith((b"commit ", b"diff --git ")):
                close_hunk()
                if hunks:
                    name = path.decode("utf-8", "replace")
                    yield ChangedFile(commit.decode(), name, blob.decode(), tuple(hunks), frozenset(others))
                hunks, others = [], set[int]()
                commit = row[7:] if row.startswith(b"commit ") else commit
            elif named := HEAD.match(row):
                blob = named[1]
            elif row.startswith(b"--- a/") and not old and not new:
                path = row[6:].rstrip(b"\t")  # git ends names with blanks so
            elif place := HUNK.match(row):
                close_hunk()
                line = int(place[1]) - 1
            elif row.startswith(b"-"):
                old.append(row[1:])
            elif row.startswith(b"+") and not row.startswith(b"+++ b/"):
                new.append(row[1:])

    @contextmanager
    def texts(self) -> Generator[Callable[[str], str | None]]:
        """Give a function that returns a file's text by its id; None if it is too large, or not UTF-8."""
        with blobs(self._folder) as read:
            yield lambda blob: _whole(read(blob))


def _whole(data: bytes) -> str | None:
    try:
        return data.decode("utf-8") if len(data) <= LARGEST else None
    except UnicodeDecodeError:
        return None


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
