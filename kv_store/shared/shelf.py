"""The contract of a shelf, where a team's values lie, how it says that it fails, and which values go from it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from kv_store.block import NAME_BYTES

KEEP_SECONDS = 14 * 24 * 3600  # a value that was not written or read for so long is removed
RETIRED_SECONDS = 2 * 24 * 3600  # for values whose text a commit has replaced, as if unused for 12 days
LARGEST = 1 << 23  # bytes of a value, where the blocks' size is not known
REMEDY = "correct 'url' in the setting 'shared_tier'"
SWEEP_SECONDS = 3600.0  # between two looks at all values
RENEWED_AFTER = KEEP_SECONDS / 2  # seconds after which a value that is used is written again
NAME = re.compile(rf"[0-9a-f]{{{2 * NAME_BYTES}}}")


class ShelfError(Exception):
    """A shelf cannot be used now; the message says why, and what helps, without anything secret in it."""


class ShelfFull(ShelfError):
    """A shelf has no room for a value; reading goes on."""


class ShelfItem(NamedTuple):
    """A value on a shelf: its name, and its size in bytes."""

    name: str
    size: int


class Shelf(Protocol):
    """The values of one team by name. Safe on any thread; each method waits a bounded time, and raises ShelfError."""

    def get_many(self, names: Sequence[str]) -> list[bytes | None]:
        """Return values, None for those that are missing, and mark them as used."""
        ...

    def exists(self, names: Sequence[str]) -> list[bool]:
        """Return which values are there and need not be written again, and mark them as used."""
        ...

    def put_many(self, values: Mapping[str, bytes]) -> int:
        """Write values and return how many; raises ShelfFull if there is no room for one of them."""
        ...

    def scan(self) -> Iterator[ShelfItem]:
        """Yield all values of the team."""
        ...

    def retire(self, names: Sequence[str]) -> None:
        """Let values go sooner than others, if the place evicts; those that are missing are ignored."""
        ...

    def delete(self, names: Sequence[str]) -> int:
        """Remove values and return how many; those that are missing are ignored."""
        ...

    def sweep(self) -> None:
        """Remove expired or excess values, if the place does not do that itself."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


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
