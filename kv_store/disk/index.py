"""What one file holds, as this process knows it; other processes change the file, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

import numpy as np

from kv_store.block import Block, Name
from kv_store.disk.reading import Place
from kv_store.disk.record import (
    MOST_PARTS,
    RECORD,
    Record,
    Records,
    changed,
    damaged,
    parsed,
    parts_of,
    seal,
    whole_blocks,
)
from kv_store.disk.segment import Segment
from kv_store.eviction import SegmentedLru

USED_GRAIN = 60  # seconds: a use so soon after another is not worth a write


class Room(NamedTuple):
    """A new block's slots, those of blocks that made room if they had more than it needs, how many these were."""

    slots: tuple[int, ...]
    freed: list[int]
    evicted: int


class Catalog:
    """The table as it was read last, and who has which slot. Its owner sees to it that one thread at a time uses it.

    The table says what the file has, the LRU what is to be found. Slots that have a record but no block in the
    LRU are litter: who may change the file erases them. The LRU has a block as soon as it is being written.
    """

    def __init__(self, segment: Segment) -> None:
        """Read the table of a file; raises OSError."""
        self.segment = segment
        self.lru = SegmentedLru(segment.geometry.slots)
        self._litter = set[int]()
        self._used = set[Name]()
        self._table = np.zeros(segment.geometry.slots, RECORD)
        self.reload()

    def refresh(self) -> None:
        """Learn what others have changed; raises OSError."""
        if self.segment.outdated:
            self.reload()

    def reload(self) -> None:
        """Read the table, and look at what has changed in it; raises OSError."""
        now = self.segment.records()
        slots = changed(self._table, now).tolist()
        old, new = parsed(self._table[slots]), parsed(now[slots])
        sound = (~damaged(now[slots], slots)).tolist()
        self._table = now
        self._litter.update(slot for slot, fits in zip(slots, sound, strict=True) if not fits)
        news = {slot: record for slot, record, fits in zip(slots, new, sound, strict=True) if fits}
        self._let_go(dict(zip(slots, old, strict=True)), news)
        self._take_in((slot, record) for slot, record in news.items() if record.parts)

    def held(self, names: Iterable[Name]) -> int:
        """How many blocks at the beginning of a chain are here, or about to be."""
        return sum(1 for _ in takewhile(lambda name: self.lru.slots(name) is not None, names))

    def places(self, names: Iterable[Name]) -> list[Place]:
        """Where the blocks of a chain are, up to the first that is missing, or still to be written."""
        found = dict[Name, tuple[int, ...]]()
        for name in names:
            if (slots := self.lru.slots(name)) is None:
                break
            found[name] = slots
        return list(self._described(found))

    def use(self, names: Sequence[Name]) -> None:
        """Note that blocks of a chain were used."""
        self.lru.touch(names)
        self._used.update(name for name in names if self.lru.slots(name))

    def uses(self, now: int) -> tuple[list[int], Records]:
        """The records that are to be written because of uses, and their slots; `now` in Unix seconds."""
        used = chain.from_iterable(self.lru.slots(name) or () for name in self._used)
        slots = np.fromiter(used, np.intp)
        slots = slots[np.abs(self._table["used"][slots].astype(np.int64) - now) >= USED_GRAIN]
        slots.sort()
        records = self._table[slots]
        records["used"] = now
        seal(records, slots.tolist())
        self._used.clear()
        return slots.tolist(), records

    def take(self, block: Block) -> Room | None:
        """Find slots for a block; None where it gets none."""
        parts = parts_of(len(block.data), self.segment.geometry.slot_bytes)
        taken = self.lru.allocate(block.name, block.parent, parts) if parts <= MOST_PARTS else None
        if taken is None:
            return None
        # Blocks go only where too few slots are free, so without free slots the new block has all of theirs.
        freed = self._slots_of(taken.evicted) if taken.evicted and self.lru.free else []
        return Room(taken.slots, freed, len(taken.evicted))

    def give_back(self, name: Name, room: Room) -> None:
        """Undo `take` where writing failed: nobody knows what is in the slots."""
        self.lru.remove(name)
        self._litter.update(room.slots, room.freed)

    def wrote(self, slots: Sequence[int], records: Records) -> None:
        """Note which records are in the file now."""
        self._table[list(slots)] = records
        self._litter.difference_update(slots)

    def drop(self, name: Name) -> None:
        """Drop a block and all behind it; their slots are litter."""
        self._litter.update(self._slots_of(self.lru.remove(name)))

    def forget(self, document: int) -> None:
        """Drop all that a document brought, and what is behind it; their slots are litter."""
        of_document = np.flatnonzero(self._table["document"] == document)
        names = {record.name for record in parsed(self._table[of_document]) if record.parts}
        self._litter.update(self._slots_of(names.union(*map(self.lru.remove, names))))

    def litter(self) -> tuple[list[int], int]:
        """The slots that are to be erased, and how many of them have damaged records."""
        slots = sorted(self._litter)
        return slots, int(damaged(self._table[slots], slots).sum())

    def _owns(self, slot: int, name: Name) -> bool:
        return slot in (self.lru.slots(name) or ())

    def _described(self, found: Mapping[Name, tuple[int, ...]]) -> Iterator[Place]:
        records = iter(parsed(self._table[list(chain.from_iterable(found.values()))]))
        for name, slots in found.items():
            place = Place(slots, [next(records) for _ in slots])
            if any(record.name != name for record in place.records):
                return
            yield place

    def _let_go(self, before: Mapping[int, Record], news: Mapping[int, Record]) -> None:
        """Drop blocks whose records have changed; those that were only used, were used."""
        gone, used = set[Name](), dict[Name, None]()
        for slot, old in before.items():
            if not self._owns(slot, old.name):
                continue
            if slot in news and news[slot].lasting == old.lasting:
                used[old.name] = None
            else:
                gone.update(self.lru.remove(old.name))
        self._litter.update(self._slots_of(gone))
        self.lru.touch([*used])

    def _take_in(self, found: Iterable[tuple[int, Record]]) -> None:
        """Enter blocks that are new in the table; records of no whole block are litter."""
        new = [(slot, record) for slot, record in found if self.lru.slots(record.name) is None]
        self._litter.update(slot for slot, _ in new)
        blocks = whole_blocks(new, self.segment.geometry.slot_bytes)
        for first, slots in sorted(blocks, key=lambda block: block[0].used):
            self.lru.adopt(first.name, first.parent, slots)
            self._litter.difference_update(slots)

    def _slots_of(self, names: Iterable[Name]) -> list[int]:
        wanted = frozenset(names)
        return [slot for slot, name in enumerate(self._table["name"].tolist()) if name in wanted] if wanted else []
