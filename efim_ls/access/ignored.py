"""What git ignores below a folder: nested `.gitignore` files, `info/exclude` and the list that git's settings name.

Git says which list that is, as its settings may lie in many files. To be asked that, it runs nothing that they name.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pathspec import GitIgnoreSpec

LARGEST_LIST = 1 << 20  # bytes; a longer list of patterns is not git's
LARGEST_POINTER = 1 << 12  # bytes of a file that says where a repository's data lies
SECONDS = 5.0  # that git may take to answer
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")  # of another repository, if a hook started the editor


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
        found = cls()
        for each in _of_repository(folder):
            found = found.within(each)
        return found

    def within(self, folder: str) -> Ignored:
        """Return the rules that hold in a folder below; a nested repository starts without outer rules."""
        own: list[str] = []
        before = self.patterns
        if os.path.lexists(os.path.join(folder, ".git")):
            before, own = (), _own_lists(folder)
        inside = os.path.join(folder, ".gitignore")
        specs = (_read(path) for path in (*own, *([] if os.path.islink(inside) else [inside])))  # as git does
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
    holds = Ignored()
    for folder, inside in pairwise((*_of_repository(os.path.dirname(path)), path)):
        holds = holds.within(folder)
        if holds.holds(inside, is_folder=inside is not path):
            return True
    return False


def is_text_ignored(path: str) -> bool:
    """Return whether git ignores a file by the name that it is asked about, or by that without links."""
    named, real = os.path.abspath(path), os.path.realpath(path)
    return is_ignored(real) or (named != real and is_ignored(named))


def _of_repository(folder: str) -> list[str]:
    """Return the folders from the top of a repository down to one in it; none outside repositories."""
    above = list(_upwards(folder))
    top = next((n for n, each in enumerate(above) if os.path.lexists(os.path.join(each, ".git"))), None)
    return above[top::-1] if top is not None else []


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and those above it."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _own_lists(top: str) -> list[str]:
    """Return the lists of a repository itself, the last one first asked: what settings name, and `info/exclude`."""
    data = os.path.join(top, ".git")
    if not os.path.isdir(data):  # of a worktree or a submodule: a file that names the folder
        data = _pointed_to(data).removeprefix("gitdir:").strip()
    data = os.path.join(top, data)
    shared = os.path.join(data, _pointed_to(os.path.join(data, "commondir")))  # by all worktrees
    home = os.path.expanduser("~")
    config = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git")
    files = (os.path.join(shared, "config"), os.path.join(data, "config.worktree"), os.path.join(home, ".gitconfig"))
    stamps = tuple(map(_stamp, (*files, os.path.join(config, "config"), "/etc/gitconfig")))
    named = _named_by_settings(top, stamps) or os.path.join(config, "ignore")
    return [os.path.join(top, named), os.path.join(shared, "info", "exclude")]


@lru_cache(64)
def _named_by_settings(top: str, stamps: tuple[tuple[int, int] | None, ...]) -> str:
    """Return the list that git's settings name, empty if none is; `stamps` change with the settings."""
    variables = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    try:
        asked = ["git", "-C", top, "config", "--type=path", "--get", "core.excludesFile"]
        said = subprocess.run(asked, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, env=variables)
    except (OSError, ValueError, subprocess.SubprocessError):  # without git nobody has such settings
        return ""
    return os.fsdecode(said.stdout).rstrip("\n") if said.returncode == 0 else ""


def _stamp(path: str) -> tuple[int, int] | None:
    """Return the time of a file's last change and its size, None if there is no file."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return None
    return state.st_mtime_ns, state.st_size


def _pointed_to(path: str) -> str:
    """Return the line in a file that says where something lies, empty if there is none."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_POINTER:
            return ""
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().rstrip("\r\n")
    except (OSError, ValueError):
        return ""


def _read(path: str) -> GitIgnoreSpec | None:
    """Return the patterns of a list, None if it has none or cannot be read; patterns that are none are left out."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_LIST:
            return None
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
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
