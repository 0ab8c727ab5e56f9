"""Levels: tiers in their places in a store, and how far from this process each of them takes its blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from kv_store.block import BlockCodec
from kv_store.tier import Tier


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
