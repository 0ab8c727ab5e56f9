"""Reading blocks from a file: their slots and records, and the bytes in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import xxhash

from kv_store.block import Block, Bytes, Name
from kv_store.disk.block_file import BlockFile
from kv_store.disk.record import Record, pieces, runs

# One small buffer that stays in the processor's cache is twice as fast as one for all that is read.
READ_BYTES = 1 << 20


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
