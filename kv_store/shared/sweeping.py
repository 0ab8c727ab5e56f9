"""Which values go from a place that does not forget them by itself."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import NamedTuple

from kv_store.block import NAME_BYTES
from kv_store.shared.shelf import KEEP_SECONDS

SWEEP_SECONDS = 3600.0  # between two looks at all values
RENEWED_AFTER = KEEP_SECONDS / 2  # seconds after which a value that is used is written again
NAME = re.compile(rf"[0-9a-f]{{{2 * NAME_BYTES}}}")


class Stored(NamedTuple):
    """A value: its name, its size in bytes, and when it was written, in seconds since 1970."""

    name: str
    size: int
    written: float


def is_name(name: str) -> bool:
    """Return whether this can be a value's name: files with other names are not ours, and stay."""
    return NAME.fullmatch(name) is not None


def is_old(written: float) -> bool:
    """Return whether a value that is used should be written again."""
    return time.time() - written > RENEWED_AFTER


class Sweeper:
    """Says at most once an hour that it is time to sweep, and what goes then."""

    def __init__(self, most_bytes: int | None) -> None:
        """With `most_bytes`, the oldest values beyond them go."""
        self._most_bytes, self._swept = most_bytes, -SWEEP_SECONDS

    def begin(self) -> bool:
        """Return whether it is time to sweep, which begins then."""
        if (now := time.monotonic()) < self._swept + SWEEP_SECONDS:
            return False
        self._swept = now
        return True

    def outdated(self, values: Iterable[Stored]) -> list[str]:
        """Return the names of expired values, and of the oldest beyond the most bytes."""
        total, oldest, found = 0, time.time() - KEEP_SECONDS, list[str]()
        for each in sorted(values, key=lambda each: each.written, reverse=True):
            total += each.size
            if each.written < oldest or (self._most_bytes is not None and total > self._most_bytes):
                found.append(each.name)
        return found
