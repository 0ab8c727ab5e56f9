"""The contract of a tier: a place that keeps blocks. Host memory and disk are tiers; a shared server may be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kv_store.block import Block, Name


@dataclass(frozen=True)
class TierStats:
    """What a tier holds now, in blocks and bytes, and what has happened since it was opened, in blocks."""

    name: str
    blocks: int = 0
    bytes: int = 0
    capacity_bytes: int = 0
    read: int = 0
    written: int = 0
    evicted: int = 0
    damaged: int = 0


class Tier(Protocol):
    """Keeps blocks by name. Safe for two threads: one that reads and holds, one that writes.

    Nothing here raises for what may happen to memory, files or connections: a block that cannot be had is missing.
    """

    def held(self, names: Sequence[Name]) -> int:
        """How many blocks at the beginning of a chain are here; changes nothing, and may be outdated at once."""
        ...

    def read(self, names: Sequence[Name]) -> Iterator[Block]:
        """Yield the blocks of a chain in order, up to the first that is missing or damaged; marks them as used.

        The data of a block is valid until the next one is asked for.
        """
        ...

    def write(self, blocks: Iterable[Block]) -> None:
        """Keep blocks, parents before their children; those held already are passed over.

        Where there is no room for one, those behind it are not kept either: they could not be reached.
        """
        ...

    def touch(self, names: Sequence[Name]) -> None:
        """Mark the blocks of a chain as used; names that are not here are ignored."""
        ...

    def pin(self, names: Sequence[Name]) -> None:
        """Pin these blocks, which are then never evicted, in place of those pinned before."""
        ...

    def forget(self, document: int) -> None:
        """Drop, and wipe, all blocks that a document brought, and those that cannot be reached without them."""
        ...

    def stats(self) -> TierStats:
        """What is here, and what has happened."""
        ...

    def close(self) -> None:
        """Let go of files and connections; what is kept stays."""
        ...
