"""Blocks whose names say what is in them, and disk tiers for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b, shake_128
from pathlib import Path

import numpy as np

from kv_store.block import Block, Bytes, Name, root
from kv_store.disk.disk_tier import DiskTier
from kv_store.disk.header import Header

FINGERPRINT = blake2b(b"a model", digest_size=32).digest()
ROOT = root(FINGERPRINT)
SLOT = 64  # bytes
DOCUMENTS = 3


def name_of(chain: int, place: int) -> Name:
    return blake2b(b"%d %d" % (chain, place), digest_size=16).digest()


def names_of(chain: int, length: int) -> list[Name]:
    return [name_of(chain, place) for place in range(length)]


def data_of(name: Name, size: int) -> Bytes:
    return np.frombuffer(shake_128(name).digest(size), np.uint8)


def block_of(chain: int, place: int, size: int = SLOT) -> Block:
    """A block; all but its size follows from its name."""
    name, parent = name_of(chain, place), name_of(chain, place - 1) if place else ROOT
    return Block(name, parent, document_of(chain), name[0] % 2, bool(name[1] % 2), data_of(name, size))


def document_of(chain: int) -> int:
    return 1 + chain % DOCUMENTS


def chain_of(chain: int, length: int, sizes: Sequence[int] = (SLOT,)) -> list[Block]:
    """Blocks of the sizes given in turn."""
    return [block_of(chain, place, sizes[place % len(sizes)]) for place in range(length)]


def capacity_of(slots: int, slot_bytes: int = SLOT) -> int:
    return Header(FINGERPRINT, slots, slot_bytes).end


def tier_of(path: Path, slots: int, said: list[str] | None = None, slot_bytes: int = SLOT) -> DiskTier:
    """Open a tier that must open; what it reports is appended to `said`."""
    report = (lambda _: None) if said is None else said.append
    tier = DiskTier.open(path, FINGERPRINT, slot_bytes, capacity_of(slots, slot_bytes), report)
    assert tier is not None
    return tier


def copied(block: Block) -> Block:
    """The same with data of its own."""
    return Block(block.name, block.parent, block.document, block.form, block.approximate, block.data.copy())


def read(tier: DiskTier, names: Sequence[Name]) -> list[Block]:
    return [copied(block) for block in tier.read(names)]


def same(found: Iterable[Block], written: Iterable[Block]) -> bool:
    return [plain(block) for block in found] == [plain(block) for block in written]


def plain(block: Block) -> tuple[Name, Name, int, int, bool, bytes]:
    return (block.name, block.parent, block.document, block.form, block.approximate, block.data.tobytes())
