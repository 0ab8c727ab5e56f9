"""The tier in host memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kv_store.block import Block, Bytes, Codec, Name
from kv_store.eviction import SegmentedLru
from kv_store.tier import TierStats


class _Kept(NamedTuple):
    """What a block is besides its bytes; `slots` outlives the LRU's entry, so that they can be wiped."""

    slots: tuple[int, ...]
    size: int
    document: int
    codec: Codec
    approximate: bool


class MemoryTier:
    """Blocks in slots of equal size, one or more each; slots of no block hold no block's bytes."""

    def __init__(self, capacity_bytes: int, slot_bytes: int) -> None:
        """Have as many slots as fit, perhaps none; MemoryError where the system will never have so much."""
        self._slot_bytes = slot_bytes
        self._lock = Lock()  # of all that follows
        self._reserve(capacity_bytes // slot_bytes)
        self._read = self._written = self._evicted = 0

    def held(self, names: Sequence[Name]) -> int:
        """How many blocks at the beginning of a chain are here; changes nothing, and may be outdated at once."""
        with self._lock:
            return self._held(names)

    def read(self, names: Sequence[Name]) -> Iterator[Block]:
        """Yield the blocks of a chain in order, up to the first that is missing; marks all of them as used.

        The data is a copy, and valid until the next block is asked for.
        """
        buffer = np.empty(0, np.uint8)
        with self._lock:
            self._lru.touch(names[: self._held(names)])
        for name in names:
            with self._lock:
                if (kept := self._kept.get(name)) is None:
                    return
                if kept.size > len(buffer):
                    buffer = np.empty(kept.size, np.uint8)
                block = self._copy(name, kept, buffer[: kept.size])
            yield block

    def write(self, blocks: Iterable[Block]) -> None:
        """Keep blocks, parents before their children, up to the first for which there is no room."""
        for block in blocks:
            with self._lock:
                if block.name not in self._kept and not self._keep(block):
                    return

    def touch(self, names: Sequence[Name]) -> None:
        """Mark the blocks of a chain as used; names that are not here are ignored."""
        with self._lock:
            self._lru.touch(names)

    def pin(self, names: Sequence[Name]) -> None:
        """Pin these blocks in place of those pinned before."""
        with self._lock:
            self._lru.pin(names)

    def forget(self, document: int) -> None:
        """Drop, and wipe, all blocks that a document brought, and those behind them."""
        with self._lock:
            for name in [name for name, kept in self._kept.items() if kept.document == document]:
                for gone in self._lru.remove(name):
                    self._wipe(gone)

    def stats(self) -> TierStats:
        """What is here, in bytes of the slots that are taken, and what has happened."""
        with self._lock:
            slots = len(self._slab)
            return TierStats(
                name="memory",
                blocks=len(self._kept),
                bytes=(slots - self._lru.free) * self._slot_bytes,
                capacity_bytes=slots * self._slot_bytes,
                read=self._read,
                written=self._written,
                evicted=self._evicted,
            )

    def close(self) -> None:
        """Give the memory back; nothing is kept from then on."""
        with self._lock:
            self._reserve(0)

    def _reserve(self, slots: int) -> None:
        self._slab: npt.NDArray[np.uint8] = np.zeros((slots, self._slot_bytes), np.uint8)  # no memory until written
        self._lru = SegmentedLru(slots)
        self._kept: dict[Name, _Kept] = {}

    def _held(self, names: Sequence[Name]) -> int:
        return sum(1 for _ in takewhile(self._kept.__contains__, names))

    def _keep(self, block: Block) -> bool:
        size = len(block.data)
        taken = self._lru.allocate(block.name, block.parent, max(1, -(-size // self._slot_bytes)))
        if taken is None:
            return False
        for name in taken.evicted:
            self._wipe(name)
        for slot, start in self._pieces(taken.slots):
            piece = block.data[start : start + self._slot_bytes]
            self._slab[slot, : len(piece)] = piece
        self._kept[block.name] = _Kept(taken.slots, size, block.document, block.codec, block.approximate)
        self._written += 1
        self._evicted += len(taken.evicted)
        return True

    def _copy(self, name: Name, kept: _Kept, data: Bytes) -> Block:
        for slot, start in self._pieces(kept.slots):
            piece = data[start : start + self._slot_bytes]
            piece[:] = self._slab[slot, : len(piece)]
        parent = self._lru.parent(name)
        assert parent is not None
        self._read += 1
        return Block(name, parent, kept.document, kept.codec, kept.approximate, data)

    def _pieces(self, slots: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Each slot, and which byte of the block is the first in it."""
        return ((slot, i * self._slot_bytes) for i, slot in enumerate(slots))

    def _wipe(self, name: Name) -> None:
        for slot in self._kept.pop(name).slots:
            self._slab[slot] = 0
