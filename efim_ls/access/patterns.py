"""Users' patterns for files and folders, and how paths match them.

Not gitignore's patterns (pathspec), which are relative to a repository: there `client/*`, `/project/*.sql` and
`[id]/page.tsx` match none of the paths that they name here, and a pattern that matches less than its user believes
lets a private file reach the disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache


def path_variants(path: str) -> frozenset[str]:
    """Return a path and the path it resolves to through links, both in the form for matching."""
    try:
        real = os.path.realpath(path)
    except ValueError:  # NUL or half a surrogate pair, which no file name can contain
        real = path
    return frozenset({matched_form(path), matched_form(real)})


def matched_form(path: str) -> str:
    """Return a path as patterns are matched with it: in lower case, with `/` between names on any system."""
    return path.replace("\\", "/").lower()


def first_match(paths: Iterable[str], patterns: Iterable[str]) -> str | None:
    """Return the first of a user's patterns that matches one of these paths or a folder above it, None if none does.

    A pattern matches whole names of files and folders, or the end of a path from any folder on, regardless of case.
    `*` stands for any characters, including `/`, `?` for one character and `~` for the home folder; brackets are
    literal.
    """
    candidates = list(paths)
    return next(
        (pattern for pattern in patterns if pattern and any_match(candidates, _as_whole_paths(pattern))), None
    )


def any_match(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Return whether one of the names, in lower case, matches one of the patterns."""
    match = _matcher(tuple(patterns))
    return any(match(name) for name in names)


@lru_cache(64)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    """Return what matches a whole name with any of the patterns, in one expression: every file is judged by it."""
    return re.compile("|".join(map(translate, patterns)) or r"(?!)").match


def _as_whole_paths(pattern: str) -> tuple[str, ...]:
    whole = matched_form(os.path.expanduser(pattern)).rstrip("/").replace("[", "[[]")
    return whole, f"*/{whole}", f"{whole}/*", f"*/{whole}/*"
