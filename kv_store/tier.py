"""The contract of a tier, a place that keeps blocks: host memory, disk, a shared server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kv_store.block import Block, Name


@dataclass(frozen=True)
class TierStats:
    """The contents of a tier, in blocks and bytes, and its counters since it was opened, in blocks.

    An answer of another machine takes `answer_seconds` and each block of a chain `block_seconds`; 0 if not known.
    """

    name: str
    blocks: int = 0
    bytes: int = 0
    capacity_bytes: int = 0
    read: int = 0
    written: int = 0
    evicted: int = 0
    damaged: int = 0
    answer_seconds: float = 0.0
    block_seconds: float = 0.0


class Tier(Protocol):
    """Blocks by name. Safe for two threads: a reader that also pins, and a writer.

    No method raises for failures of memory, files or connections: a block that cannot be read is missing.
    """

    def lookup(self, names: Sequence[Name]) -> int | None:
        """Count the blocks at the beginning of a chain that are here; changes nothing, and may soon be outdated.

        It never waits. None means "not known yet, ask again": a tier on another machine says so while it is looking.
        """
        ...

    def read(self, names: Sequence[Name]) -> Iterator[Block]:
        """Yield the blocks of a chain in order, up to the first that is missing or damaged, and mark them as used.

        While a look-up is not answered yet, nothing is here. The data of a block is valid until the next one is
        requested.
        """
        ...

    def save(self, blocks: Iterable[Block]) -> None:
        """Save blocks, parents before their children; those already here are skipped.

        If there is no room for a block, its descendants are not saved either: they could not be reached.
        """
        ...

    def touch(self, names: Sequence[Name]) -> None:
        """Mark the blocks of a chain as used; names that are not here are ignored."""
        ...

    def pin(self, names: Sequence[Name]) -> None:
        """Pin these blocks, which are then never evicted, in place of those pinned before."""
        ...

    def retire(self, names: Sequence[Name]) -> None:
        """Let blocks go before others that many use, if the tier has such: a commit has replaced their text."""
        ...

    def remove_document(self, document: int) -> bool:
        """Remove and wipe the blocks that a document brought, and their descendants; return whether none is left."""
        ...

    def share_memory(self, parts: int) -> None:
        """Use one of `parts` equal parts of its memory; blocks that only memory holds may be lost."""
        ...

    def stats(self) -> TierStats:
        """Return the contents and the counters."""
        ...

    def close(self) -> None:
        """Release files and connections; blocks that outlive the process stay."""
        ...
