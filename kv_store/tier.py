"""The contract of a tier, a place that keeps blocks (host memory, disk, a shared server), and tiers as levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from kv_store.block import Block, BlockCodec, Name


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


class Reach(IntEnum):
    """Where a tier keeps blocks, and how far a document's blocks may go: each place is further away than the last."""

    PROCESS = 0  # memory that nobody else can read and that ends with the process
    DISK = 1  # files on this machine
    NETWORK = 2  # other machines


class Origin(NamedTuple):
    """Where blocks come from: the tag of a document, and how far it, and all that they rest on, may `reach`."""

    document: int
    reach: Reach


class Level(NamedTuple):
    """A tier in its place: most of its blocks have this `form`, and it takes blocks up to its `reach`.

    If it is `behind`, a separate thread writes to it. `patience` is how many seconds after the last block a read
    waits for a tier that is still looking up its blocks; then the tier counts as empty for this read. Without
    patience nothing is waited for.
    """

    tier: Tier
    form: int
    behind: bool
    reach: Reach
    patience: float = 0.0

    def admits(self, origin: Origin) -> bool:
        """Return whether blocks of that origin may go to this tier."""
        return self.reach <= origin.reach

    def reading(self, blocks: int) -> float:
        """Return how many seconds `blocks` blocks of a chain take to come, as last seen; 0 if none is waited for."""
        if not self.patience:
            return 0.0
        seen = self.tier.stats()
        return max(seen.answer_seconds, blocks * seen.block_seconds)


@dataclass(frozen=True)
class StoreContext:
    """What all levels of a store have in common: its model's fingerprint and codec, and its folder, if it has one.

    `report` is called on any thread with a sentence for the user: the cause and the remedy.
    """

    fingerprint: bytes
    codec: BlockCodec
    folder: Path | None
    report: Callable[[str], None]
