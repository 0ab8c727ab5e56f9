"""The contents of a block file as this process last saw them, and its bytes; other processes change the file, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

import numpy as np
import xxhash

from kv_store.block import Block, Bytes, Name
from kv_store.disk.block_file import BlockFile
from kv_store.disk.record import (
    MAX_PARTS,
    RECORD,
    Record,
    Records,
    changed,
    damaged,
    parse,
    parts_of,
    pieces,
    runs,
    seal,
    whole_blocks,
)
from kv_store.eviction import SegmentedLru

# One small buffer that stays in the processor's cache is twice as fast as one for all that is read.
READ_BYTES = 1 << 20
USE_GRAIN = 60  # seconds; a use this soon after another is not worth a write


class StoredBlock(NamedTuple):
    """A block in a file: its slots and their records."""

    slots: tuple[int, ...]
    records: list[Record]

    @property
    def name(self) -> Name:
        """The block's name."""
        return self.records[0].name

    @property
    def size(self) -> int:
        """The block's size in bytes."""
        return self.records[0].size

    def with_data(self, data: Bytes) -> Block:
        """Return the block with the data that was read."""
        record = self.records[0]
        approximate = bool(record.approximate)
        return Block(record.name, record.parent, record.document, record.form, approximate, data)

    def matches(self, data: Bytes, slot_bytes: int) -> bool:
        """Return whether the data is unchanged since it was written."""
        checks = [xxhash.xxh3_64_intdigest(piece.data) for piece in pieces(data, slot_bytes)]
        return checks == [record.data_check for record in self.records]


def read_blocks(block_file: BlockFile, blocks: Sequence[StoredBlock]) -> Iterator[tuple[StoredBlock, Bytes]]:
    """Yield blocks with their data, unchecked and valid until the next one is requested; raises OSError.

    Adjacent slots are read together, as many as fit the buffer.
    """
    slot_bytes = block_file.header.slot_bytes
    sizes = [len(block.slots) * slot_bytes for block in blocks]
    buffer = np.empty(min(sum(sizes), max(READ_BYTES, *sizes, 0)), np.uint8)
    for group in _groups(blocks, len(buffer) // slot_bytes):
        end = 0
        for first, count in runs(slot for block in group for slot in block.slots):
            start, end = end, end + count * slot_bytes
            block_file.read(first, buffer[start:end])
        start = 0
        for block in group:
            yield block, buffer[start : start + block.size]
            start += len(block.slots) * slot_bytes


def _groups(blocks: Sequence[StoredBlock], max_slots: int) -> Iterator[list[StoredBlock]]:
    group, slots = list[StoredBlock](), 0
    for block in blocks:
        if group and slots + len(block.slots) > max_slots:
            yield group
            group, slots = [], 0
        group.append(block)
        slots += len(block.slots)
    if group:
        yield group


class DiskAllocation(NamedTuple):
    """A new block's slots, freed slots that it does not need, and how many blocks were evicted."""

    slots: tuple[int, ...]
    freed: list[int]
    evicted: int


class Index:
    """The table of a file as it was last read, and which block has which slots. Not safe for two threads at once.

    The table is what the file holds, the LRU what can be found. A block is in the LRU as soon as its writing begins.
    Slots that have a record but no block in the LRU are orphans; whoever may change the file erases them.
    """

    def __init__(self, block_file: BlockFile) -> None:
        """Read the table of a file; raises OSError."""
        self.block_file = block_file
        self.lru = SegmentedLru(block_file.header.slots)
        self._orphans = set[int]()
        self._used = set[Name]()
        self._table = np.zeros(block_file.header.slots, RECORD)
        self.reload()

    def refresh(self) -> None:
        """Read the table again if another process has changed it; raises OSError."""
        if self.block_file.outdated:
            self.reload()

    def reload(self) -> None:
        """Read the table and apply what has changed in it; raises OSError."""
        now = self.block_file.records()
        slots = changed(self._table, now).tolist()
        old, new = parse(self._table[slots]), parse(now[slots])
        sound = (~damaged(now[slots], slots)).tolist()
        self._table = now
        self._orphans.update(slot for slot, is_sound in zip(slots, sound, strict=True) if not is_sound)
        news = {slot: record for slot, record, is_sound in zip(slots, new, sound, strict=True) if is_sound}
        self._remove_changed(dict(zip(slots, old, strict=True)), news)
        self._add((slot, record) for slot, record in news.items() if record.parts)

    def lookup(self, names: Iterable[Name]) -> int:
        """Count the blocks at the beginning of a chain that are in the file or being written."""
        return sum(1 for _ in takewhile(lambda name: self.lru.slots(name) is not None, names))

    def locate(self, names: Iterable[Name]) -> list[StoredBlock]:
        """Return the blocks of a chain up to the first that is missing or not yet written."""
        found = dict[Name, tuple[int, ...]]()
        for name in names:
            if (slots := self.lru.slots(name)) is None:
                break
            found[name] = slots
        return list(self._with_records(found))

    def touch(self, names: Sequence[Name]) -> None:
        """Mark the blocks of a chain as used; names that are not here are ignored."""
        self.lru.touch(names)
        self._used.update(name for name in names if self.lru.slots(name))

    def take_pending_uses(self, now: int) -> tuple[list[int], Records]:
        """Return and clear the slots and records to write because their blocks were used; `now` in Unix seconds."""
        used = chain.from_iterable(self.lru.slots(name) or () for name in self._used)
        slots = np.fromiter(used, np.intp)
        slots = slots[np.abs(self._table["used"][slots].astype(np.int64) - now) >= USE_GRAIN]
        slots.sort()
        records = self._table[slots]
        records["used"] = now
        seal(records, slots.tolist())
        self._used.clear()
        return slots.tolist(), records

    def allocate(self, block: Block) -> DiskAllocation | None:
        """Find slots for a block, or return None if there is no room for it."""
        parts = parts_of(len(block.data), self.block_file.header.slot_bytes)
        allocation = self.lru.allocate(block.name, block.parent, parts) if parts <= MAX_PARTS else None
        if allocation is None:
            return None
        slots, evicted = allocation
        # Blocks are evicted only if too few slots are free, so without free slots the new block has all of theirs.
        freed = self._slots_of(evicted) if evicted and self.lru.free else []
        return DiskAllocation(slots, freed, len(evicted))

    def cancel(self, name: Name, allocation: DiskAllocation) -> None:
        """Undo `allocate` after a failed write: the slots may hold anything."""
        self.lru.remove(name)
        self._orphans.update(allocation.slots, allocation.freed)

    def note_written(self, slots: Sequence[int], records: Records) -> None:
        """Enter records that were written to the file."""
        self._table[list(slots)] = records
        self._orphans.difference_update(slots)

    def remove(self, name: Name) -> None:
        """Remove a block and its descendants; their slots become orphans."""
        self._orphans.update(self._slots_of(self.lru.remove(name)))

    def remove_document(self, document: int) -> None:
        """Remove the blocks that a document brought, and their descendants; their slots become orphans."""
        of_document = np.flatnonzero(self._table["document"] == document)
        names = {record.name for record in parse(self._table[of_document]) if record.parts}
        self._orphans.update(self._slots_of(names.union(*map(self.lru.remove, names))))

    def orphans(self) -> tuple[list[int], int]:
        """Return the slots to erase, and how many of them have damaged records."""
        slots = sorted(self._orphans)
        return slots, int(damaged(self._table[slots], slots).sum())

    def _with_records(self, found: Mapping[Name, tuple[int, ...]]) -> Iterator[StoredBlock]:
        records = iter(parse(self._table[list(chain.from_iterable(found.values()))]))
        for name, slots in found.items():
            block = StoredBlock(slots, [next(records) for _ in slots])
            if any(record.name != name for record in block.records):
                return
            yield block

    def _remove_changed(self, before: Mapping[int, Record], news: Mapping[int, Record]) -> None:
        """Remove blocks whose records have changed, and touch those whose time of use is the only change."""
        removed, used = set[Name](), dict[Name, None]()
        for slot, old in before.items():
            if slot not in (self.lru.slots(old.name) or ()):
                continue
            if slot in news and news[slot].without_use == old.without_use:
                used[old.name] = None
            else:
                removed.update(self.lru.remove(old.name))
        self._orphans.update(self._slots_of(removed))
        self.lru.touch([*used])

    def _add(self, found: Iterable[tuple[int, Record]]) -> None:
        """Add blocks that are new in the table; records that make no whole block are orphans."""
        new = [(slot, record) for slot, record in found if self.lru.slots(record.name) is None]
        self._orphans.update(slot for slot, _ in new)
        blocks = whole_blocks(new, self.block_file.header.slot_bytes)
        for first, slots in sorted(blocks, key=lambda block: block[0].used):
            self.lru.adopt(first.name, first.parent, slots)
            self._orphans.difference_update(slots)

    def _slots_of(self, names: Iterable[Name]) -> list[int]:
        wanted = frozenset(names)
        return [slot for slot, name in enumerate(self._table["name"].tolist()) if name in wanted] if wanted else []
