"""Levels: tiers in their places in a store, and which blocks each of them may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kv_store.block import BlockCodec
from kv_store.tier import Tier


class Origin(NamedTuple):
    """Where blocks come from: the tag of a document, and whether it, or another that they rest on, is private."""

    document: int
    private: bool


class Level(NamedTuple):
    """A tier in its place: most of its blocks have this `form`, and it only ever gets those that it `admits`.

    If it is `behind`, a thread of its own writes to it. `patience` is how many seconds a read waits for a tier
    that does not know yet what it has; then the tier counts as empty for this read.
    """

    tier: Tier
    form: int
    behind: bool
    admits: Callable[[Origin], bool]
    patience: float = 0.0


@dataclass(frozen=True)
class StoreContext:
    """What all levels of a store have in common: its model's fingerprint and codec, and its folder, if it has one.

    `report` is called on any thread with a sentence for the user: what is wrong, and what helps.
    """

    fingerprint: bytes
    codec: BlockCodec
    folder: Path | None
    report: Callable[[str], None]


def admit_all(origin: Origin) -> bool:
    """Admit every block, as a level does that nobody else can read and that ends with the process."""
    return True


def admit_public(origin: Origin) -> bool:
    """Admit what does not rest on private documents."""
    return not origin.private
