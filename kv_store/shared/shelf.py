"""The contract of a shelf: where a team's values lie, a server or a folder, and how it says that it fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

KEEP_SECONDS = 14 * 24 * 3600  # a value that was not written or read for so long is removed
RETIRED_SECONDS = 2 * 24 * 3600  # for values whose text a commit has replaced, as if unused for 12 days
LARGEST = 1 << 23  # bytes of a value, where the blocks' size is not known
REMEDY = "correct 'url' in the setting 'shared_tier'"


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
