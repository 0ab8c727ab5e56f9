"""The disk tier: blocks in one file of a model, that several servers share."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from kv_store.block import Block, Name
from kv_store.complaints import DAMAGED, NOT_HERE, READ_ONLY, TOO_SMALL, VANISHED, Complaints
from kv_store.disk.header import SegmentError
from kv_store.disk.index import Catalog
from kv_store.disk.location import Home
from kv_store.disk.reading import fetch
from kv_store.disk.record import RECORD, describe
from kv_store.disk.segment import AVAILABLE, Segment
from kv_store.tier import TierStats


class DiskTier:
    """Keeps blocks in a file. Where the file fails, blocks are missing and the user is told why, once.

    A block that needs several slots gets them, up to 255; a larger one is refused.
    """

    def __init__(self, home: Home, segment: Segment, complaints: Complaints) -> None:
        """Take over an open file; raises OSError. Others call `open`."""
        self._home, self._complaints = home, complaints
        self._alone = threading.Lock()  # held by who changes the file; taken before the other one
        self._lock = threading.RLock()  # guards what follows
        self._catalog: Catalog | None = Catalog(segment)  # None: closed
        self._pinned: Sequence[Name] = ()
        self._read = self._written = self._evicted = self._damaged = 0

    @classmethod
    def open(
        cls, path: Path, fingerprint: bytes, slot_bytes: int, capacity_bytes: int, report: Callable[[str], None]
    ) -> DiskTier | None:
        """Open the file of a model, never larger than `capacity_bytes`; None where there can be none.

        `slot_bytes` is the size of most blocks; a file that is there already may have others. `report` is called on
        any thread, once for each cause, with one sentence that says what is wrong and what helps.
        """
        home, complaints = Home(path, fingerprint, slot_bytes, capacity_bytes), Complaints(report)
        if not AVAILABLE:
            complaints.say(NOT_HERE)
        elif not home.geometry.slots:
            complaints.say(TOO_SMALL)
        else:
            try:
                return cls._opened(home, complaints)
            except (OSError, SegmentError) as error:
                complaints.failed("used", error)
        return None

    @classmethod
    def _opened(cls, home: Home, complaints: Complaints) -> DiskTier:
        segment = home.open(False, complaints)
        if segment.read_only:
            complaints.say(READ_ONLY)
        return cls(home, segment, complaints)

    def held(self, names: Sequence[Name]) -> int:
        """How many blocks at the beginning of a chain are in the file."""
        with self._lock:
            catalog = self._current()
            return catalog.held(names) if catalog else 0

    def read(self, names: Sequence[Name]) -> Iterator[Block]:
        """Yield the blocks of a chain, each checked in a buffer that the next one overwrites."""
        with self._lock:
            if (catalog := self._current()) is None:
                return
            places, seen = catalog.places(names), catalog.segment.seen
            catalog.use([place.name for place in places])
        try:
            for place, data in fetch(catalog.segment, places):
                if not place.fits(data, catalog.segment.geometry.slot_bytes):
                    self._miss(catalog, place.name, seen)
                    return
                self._read += 1
                yield place.block(data)
        except OSError as error:
            self._complaints.failed("read", error)

    def write(self, blocks: Iterable[Block]) -> None:
        """Write blocks in one batch."""
        try:
            with self._changing() as catalog:
                refused = set[Name]()
                for block in blocks:
                    if block.parent in refused or not self._keep(catalog, block):
                        refused.add(block.name)
                self._write_uses(catalog)
        except (OSError, SegmentError) as error:
            self._complaints.failed("written", error)

    def touch(self, names: Sequence[Name]) -> None:
        """Mark blocks as used; the file learns of it with the next write."""
        with self._lock:
            if catalog := self._current():
                catalog.use(names)

    def pin(self, names: Sequence[Name]) -> None:
        """Pin blocks in place of those pinned before; other servers do not know of it."""
        with self._lock:
            self._pinned = names
            if self._catalog:
                self._catalog.lru.pin(names)

    def forget(self, document: int) -> None:
        """Drop and wipe what a document brought."""
        try:
            with self._changing() as catalog:
                with self._lock:
                    catalog.forget(document)
                self._sweep(catalog)
        except (OSError, SegmentError) as error:
            self._complaints.failed("erased", error)

    def stats(self) -> TierStats:
        """What is in the file as far as is known, and what this server did; waits for nobody."""
        if (catalog := self._catalog) is None:
            return TierStats("disk")
        lru, (_, slots, slot_bytes) = catalog.lru, catalog.segment.geometry
        sizes = ((slots - lru.free) * slot_bytes, slots * slot_bytes)
        return TierStats("disk", len(lru), *sizes, self._read, self._written, self._evicted, self._damaged)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._catalog = None

    def _current(self) -> Catalog | None:
        """What the file holds, as those who changed it have left it; None where there is none any more."""
        if self._catalog is None or self._catalog.segment.vanished:
            return None
        try:
            self._catalog.refresh()
        except OSError as error:
            self._complaints.failed("read", error)
        return self._catalog

    def _miss(self, catalog: Catalog, name: Name, seen: int) -> None:
        """Drop a block whose data does not fit, unless its slots may have been given away since `seen`."""
        with self._lock:
            if seen % 2 or catalog.segment.outdated or catalog.segment.seen != seen:
                return
            catalog.drop(name)
            self._damaged += 1
            self._complaints.say(DAMAGED)

    @contextmanager
    def _changing(self) -> Generator[Catalog]:
        """Have the file to oneself, and know what is in it; raises OSError, SegmentError."""
        with self._alone, ExitStack() as stack:
            if (catalog := self._catalog) is None:
                raise OSError(errno.EBADF, "it is closed")
            stack.enter_context(catalog.segment.locked())
            if catalog.segment.vanished:
                catalog = self._reopened()
                stack.enter_context(catalog.segment.locked())
            if catalog.segment.read_only:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            with self._lock:
                catalog.refresh()
            self._sweep(catalog)
            yield catalog

    def _reopened(self) -> Catalog:
        """Open what is there in place of a file that has vanished."""
        self._complaints.say(VANISHED)
        catalog = Catalog(self._home.open(True, self._complaints))
        with self._lock:
            catalog.lru.pin(self._pinned)
            self._catalog = catalog
        return catalog

    def _sweep(self, catalog: Catalog) -> None:
        """Erase what nobody can find; raises OSError, and then it will be tried again."""
        with self._lock:
            slots, damaged = catalog.litter()
            self._damaged += damaged
        if damaged:
            self._complaints.say(DAMAGED)
        self._erase(catalog, slots)

    def _keep(self, catalog: Catalog, block: Block) -> bool:
        """Write a block that is not held; false where there is no room for it. Raises OSError."""
        with self._lock:
            if catalog.held([block.name]):
                catalog.use([block.name])
                return True
            room = catalog.take(block)
        if room is None:
            return False
        records = describe(block, room.slots, catalog.segment.geometry.slot_bytes, int(time.time()))
        try:
            self._erase(catalog, room.freed)
            catalog.segment.write(room.slots, records, block.data)
        except OSError:
            with self._lock:
                catalog.give_back(block.name, room)
            raise
        with self._lock:
            catalog.wrote(room.slots, records)
            self._written += 1
            self._evicted += room.evicted
        return True

    def _erase(self, catalog: Catalog, slots: Sequence[int]) -> None:
        if not slots:
            return
        catalog.segment.erase(slots)
        with self._lock:
            catalog.wrote(slots, np.zeros(len(slots), RECORD))

    def _write_uses(self, catalog: Catalog) -> None:
        with self._lock:
            slots, records = catalog.uses(int(time.time()))
        catalog.segment.write_records(slots, records)
        with self._lock:
            catalog.wrote(slots, records)
