"""Users' patterns of files and folders, and the paths that they are compared with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import product


def path_variants(path: str) -> frozenset[str]:
    """A path and, where links lead elsewhere, where they lead: both in lower case, as patterns are compared."""
    try:
        real = os.path.realpath(path)
    except ValueError:  # NUL or half a surrogate pair: no file is called so
        real = path
    return frozenset({path.lower(), real.lower()})


def first_match(paths: Iterable[str], patterns: Iterable[str]) -> str | None:
    """The first of a user's patterns that means one of these paths, or a folder that it is in.

    Patterns are compared with names, of files and folders, and with paths from any folder on, without case. `*`
    stands for any characters, `/` included, `?` for one, `~` for the home folder; brackets are names' own.
    """
    there = list(paths)
    return next((pattern for pattern in patterns if pattern and any_match(there, _as_whole_paths(pattern))), None)


def any_match(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Whether one of the names, in lower case, fits one of the patterns."""
    return any(fnmatchcase(name, pattern) for name, pattern in product(names, patterns))


def _as_whole_paths(pattern: str) -> tuple[str, ...]:
    whole = os.path.expanduser(pattern).replace(os.sep, "/").rstrip("/").lower().replace("[", "[[]")
    return whole, f"*/{whole}", f"{whole}/*", f"*/{whole}/*"
