"""Where blocks are in a file, and how their bytes are read from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import xxhash

from kv_store.block import Block, Bytes, Codec, Name
from kv_store.disk.record import Record, pieces, runs
from kv_store.disk.segment import Segment

# One small buffer that stays in the processor's cache is twice as fast as one for all that is read.
READ_BYTES = 1 << 20


class Place(NamedTuple):
    """The slots of a block, and what their records say."""

    slots: tuple[int, ...]
    records: list[Record]

    @property
    def name(self) -> Name:
        """The block's name."""
        return self.records[0].name

    @property
    def size(self) -> int:
        """Bytes of the block."""
        return self.records[0].size

    def block(self, data: Bytes) -> Block:
        """The block with the data that was read."""
        record = self.records[0]
        approximate = bool(record.approximate)
        return Block(record.name, record.parent, record.document, Codec(record.codec), approximate, data)

    def fits(self, data: Bytes, slot_bytes: int) -> bool:
        """Whether the data is what was written."""
        checks = [xxhash.xxh3_64_intdigest(piece.data) for piece in pieces(data, slot_bytes)]
        return checks == [record.data_check for record in self.records]


def fetch(segment: Segment, places: Sequence[Place]) -> Iterator[tuple[Place, Bytes]]:
    """Yield places with what is there, unchecked and valid until the next are asked for; raises OSError.

    Adjacent slots are read at once, as many as fit the buffer.
    """
    slot_bytes = segment.geometry.slot_bytes
    sizes = [len(place.slots) * slot_bytes for place in places]
    buffer = np.empty(min(sum(sizes), max(READ_BYTES, *sizes, 0)), np.uint8)
    for group in _groups(places, len(buffer) // slot_bytes):
        end = 0
        for first, count in runs(slot for place in group for slot in place.slots):
            start, end = end, end + count * slot_bytes
            segment.read(first, buffer[start:end])
        start = 0
        for place in group:
            yield place, buffer[start : start + place.size]
            start += len(place.slots) * slot_bytes


def _groups(places: Sequence[Place], most_slots: int) -> Iterator[list[Place]]:
    group, slots = list[Place](), 0
    for place in places:
        if group and slots + len(place.slots) > most_slots:
            yield group
            group, slots = [], 0
        group.append(place)
        slots += len(place.slots)
    if group:
        yield group
