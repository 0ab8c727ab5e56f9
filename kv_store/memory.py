"""The tier in host memory."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kv_store.block import Block, Bytes, Name
from kv_store.eviction import SegmentedLru
from kv_store.tier import TierStats


class _Entry(NamedTuple):
    """A block without its bytes. Its `slots` are kept here: the LRU has forgotten them when they are wiped."""

    slots: tuple[int, ...]
    size: int
    document: int
    form: int
    approximate: bool


class MemoryTier:
    """Blocks in slots of equal size, one or more each; free slots are wiped."""

    def __init__(self, capacity_bytes: int, slot_bytes: int) -> None:
        """Reserve as many slots as fit, perhaps none; raises MemoryError if the system cannot provide them."""
        self._slot_bytes = slot_bytes
        self._lock = Lock()  # guards what follows
        self._given = capacity_bytes // slot_bytes  # slots
        self._reserve(self._given)
        self._read = self._written = self._evicted = 0

    def lookup(self, names: Sequence[Name]) -> int:
        """Count the blocks at the beginning of a chain that are here; changes nothing, and may soon be outdated."""
        with self._lock:
            return self._lookup(names)

    def read(self, names: Sequence[Name]) -> Iterator[Block]:
        """Yield the blocks of a chain in order, up to the first that is missing, and mark all of them as used.

        The data is a copy, valid until the next block is requested.
        """
        buffer = np.empty(0, np.uint8)
        with self._lock:
            self._lru.touch(names[: self._lookup(names)])
        for name in names:
            with self._lock:
                if (entry := self._entries.get(name)) is None:
                    return
                if entry.size > len(buffer):
                    buffer = np.empty(entry.size, np.uint8)
                block = self._copy(name, entry, buffer[: entry.size])
            yield block

    def save(self, blocks: Iterable[Block]) -> None:
        """Save blocks, parents before their children, up to the first for which there is no room."""
        for block in blocks:
            with self._lock:
                if block.name not in self._entries and not self._save(block):
                    return

    def touch(self, names: Sequence[Name]) -> None:
        """Mark the blocks of a chain as used; names that are not here are ignored."""
        with self._lock:
            self._lru.touch(names)

    def pin(self, names: Sequence[Name]) -> None:
        """Pin these blocks in place of those pinned before."""
        with self._lock:
            self._lru.pin(names)

    def retire(self, names: Sequence[Name]) -> None:
        """Do nothing: its one user may go back to the commit before."""

    def remove_document(self, document: int) -> bool:
        """Remove and wipe the blocks that a document brought, and their descendants; return whether none is left."""
        with self._lock:
            for name in [name for name, entry in self._entries.items() if entry.document == document]:
                for removed in self._lru.remove(name):
                    self._wipe(removed)
        return True

    def share_memory(self, parts: int) -> None:
        """Use one of `parts` equal parts of the slots; if the number has changed, forget all blocks."""
        with self._lock:
            if len(self._slab) != (slots := self._given // parts):
                self._reserve(slots)

    def stats(self) -> TierStats:
        """Return the blocks in memory, in bytes of the slots in use, and the counters."""
        with self._lock:
            slots = len(self._slab)
            return TierStats(
                name="memory",
                blocks=len(self._entries),
                bytes=(slots - self._lru.free) * self._slot_bytes,
                capacity_bytes=slots * self._slot_bytes,
                read=self._read,
                written=self._written,
                evicted=self._evicted,
            )

    def close(self) -> None:
        """Free the memory; nothing is saved from then on."""
        with self._lock:
            self._reserve(0)

    def _reserve(self, slots: int) -> None:
        self._slab = _map_slots(slots, self._slot_bytes)
        self._lru = SegmentedLru(slots)
        self._entries: dict[Name, _Entry] = {}

    def _lookup(self, names: Sequence[Name]) -> int:
        return sum(1 for _ in takewhile(self._entries.__contains__, names))

    def _save(self, block: Block) -> bool:
        size = len(block.data)
        allocation = self._lru.allocate(block.name, block.parent, max(1, -(-size // self._slot_bytes)))
        if allocation is None:
            return False
        for name in allocation.evicted:
            self._wipe(name)
        for slot, start in self._pieces(allocation.slots):
            piece = block.data[start : start + self._slot_bytes]
            self._slab[slot, : len(piece)] = piece
        self._entries[block.name] = _Entry(allocation.slots, size, block.document, block.form, block.approximate)
        self._written += 1
        self._evicted += len(allocation.evicted)
        return True

    def _copy(self, name: Name, entry: _Entry, data: Bytes) -> Block:
        for slot, start in self._pieces(entry.slots):
            piece = data[start : start + self._slot_bytes]
            piece[:] = self._slab[slot, : len(piece)]
        parent = self._lru.parent(name)
        assert parent is not None
        self._read += 1
        return Block(name, parent, entry.document, entry.form, entry.approximate, data)

    def _pieces(self, slots: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield each slot with the index of the block's first byte in it."""
        return ((slot, i * self._slot_bytes) for i, slot in enumerate(slots))

    def _wipe(self, name: Name) -> None:
        for slot in self._entries.pop(name).slots:
            self._slab[slot] = 0


def _map_slots(slots: int, size: int) -> npt.NDArray[np.uint8]:
    """Map slots of `size` zero bytes, [slots, size], which take memory once they are written; raises MemoryError.

    An allocator would give memory that was freed before, and write all the zeros at once.
    """
    private = {} if sys.platform == "win32" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    try:
        mapped = mmap.mmap(-1, slots * size or 1, **private)
    except OSError as error:
        raise MemoryError(f"the system has no {slots * size >> 20} MiB of memory left") from error
    return np.frombuffer(mapped, np.uint8, slots * size).reshape(slots, size)
