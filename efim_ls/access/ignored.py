"""What git ignores below a folder: nested `.gitignore` files, `.git/info/exclude` and the user's own list."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from pathspec import GitIgnoreSpec

LARGEST_LIST = 1 << 20  # bytes; a longer list of patterns is not git's


class _Patterns(NamedTuple):
    """Patterns, and the folder that they are relative to, with a separator at its end."""

    base: str
    spec: GitIgnoreSpec


class Ignored(NamedTuple):
    """The patterns that hold in one folder, the nearest last; immutable."""

    patterns: tuple[_Patterns, ...] = ()

    @classmethod
    def above(cls, folder: str) -> Ignored:
        """Return what holds for a folder itself, from the top of its repository; nothing outside repositories."""
        above = list(_upwards(folder))
        top = next((n for n, each in enumerate(above) if os.path.lexists(os.path.join(each, ".git"))), None)
        found = cls()
        for each in reversed(above[: top + 1] if top is not None else above[:0]):
            found = found.within(each)
        return found

    def within(self, folder: str) -> Ignored:
        """Return what holds in a folder below; a repository of its own begins with nothing from outside."""
        own: list[str] = []
        before = self.patterns
        if os.path.lexists(git := os.path.join(folder, ".git")):
            before = ()
            own = [_users_list(), os.path.join(git, "info", "exclude")]
        specs = (_read(path) for path in (*own, os.path.join(folder, ".gitignore")))
        found = tuple(_Patterns(folder.rstrip(os.sep) + os.sep, spec) for spec in specs if spec)
        return Ignored(before + found) if found or before is not self.patterns else self

    def holds(self, path: str, is_folder: bool) -> bool:
        """Return whether a path in the folder is ignored; the folders above it are not asked."""
        for base, spec in reversed(self.patterns):
            name = path[len(base) :] + "/" * is_folder
            if (found := spec.check_file(name).include) is not None:
                return found
        return False


def is_ignored(path: str) -> bool:
    """Return whether git ignores a file, by an absolute path without links, or a folder above it."""
    above = list(_upwards(os.path.dirname(path)))
    top = next((n for n, each in enumerate(above) if os.path.lexists(os.path.join(each, ".git"))), None)
    if top is None:
        return False
    holds = Ignored()
    *folders, whole = *reversed(above[: top + 1]), path
    for folder, inside in zip(folders, (*folders[1:], whole), strict=True):
        holds = holds.within(folder)
        if holds.holds(inside, is_folder=inside is not whole):
            return True
    return False


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and those above it."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _users_list() -> str:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "git", "ignore")


def _read(path: str) -> GitIgnoreSpec | None:
    """Return the patterns of a list, None if it has none or cannot be read; patterns that are none are left out."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_LIST:
            return None
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    valid = [line for line in lines if line.strip() and not line.startswith("#") and _is_pattern(line)]
    return GitIgnoreSpec.from_lines(valid, backend="simple") if valid else None


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line], backend="simple")
    except ValueError:
        return False
    return True
