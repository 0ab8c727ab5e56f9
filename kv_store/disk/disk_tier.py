"""The disk tier: a model's blocks in one file, which several servers share."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kv_store.block import Block, Name
from kv_store.disk import messages
from kv_store.disk.block_file import SUPPORTED, BlockFile
from kv_store.disk.header import BlockFileError, Header, OtherModel, OtherSize
from kv_store.disk.index import Index, read_blocks
from kv_store.disk.record import RECORD, describe
from kv_store.tier import TierStats
from kv_store.warn_once import WarnOnce


class Location(NamedTuple):
    """A block file's path, the model's fingerprint, the size of most blocks, and the most bytes of the file."""

    path: Path
    fingerprint: bytes
    slot_bytes: int
    capacity: int

    @property
    def header(self) -> Header:
        """The header of a new file; it may have no slots."""
        return Header.within(self.capacity, self.fingerprint, self.slot_bytes)

    def open(self, any_size: bool, warnings: WarnOnce) -> BlockFile:
        """Open the file, or create it if it is missing or cannot be used; raises OSError, BlockFileError.

        `any_size` accepts a file that another server has made smaller, and raises OtherSize for a larger one.
        """
        try:
            return self._open_existing(any_size)
        except FileNotFoundError:
            return self._create(any_size)
        except OtherSize as error:
            if any_size:
                raise
            warnings.warn(messages.discarded(error))
        except BlockFileError as error:
            warnings.warn(messages.discarded(error))
        return BlockFile.replace(self.path, self.header)

    def _create(self, any_size: bool) -> BlockFile:
        try:
            return BlockFile.create(self.path, self.header)
        except FileExistsError:  # another server was faster
            return self._open_existing(any_size)

    def _open_existing(self, any_size: bool) -> BlockFile:
        block_file = BlockFile.open(self.path)
        found = block_file.header
        if found.fingerprint != self.fingerprint:
            raise OtherModel("the file is another model's")
        expected = Header.within(self.capacity, self.fingerprint, found.slot_bytes)
        if found.end > self.capacity if any_size else found != expected:
            raise OtherSize("the file was made under another setting of disk_mib")
        return block_file


class DiskTier:
    """Blocks in a file. When the file fails, blocks are missing and the user is warned once of each cause.

    A block may take up to 255 slots; a larger one is refused.
    """

    def __init__(self, location: Location, block_file: BlockFile, warnings: WarnOnce) -> None:
        """Own an open file; raises OSError. Callers elsewhere use `open`."""
        self._location, self._warnings = location, warnings
        self._changing_lock = threading.Lock()  # held while changing the file; taken before the other lock
        self._lock = threading.RLock()  # guards what follows
        self._index: Index | None = Index(block_file)  # None: closed
        self._pinned: Sequence[Name] = ()
        self._read = self._written = self._evicted = self._damaged = 0

    @classmethod
    def open(
        cls, path: Path, fingerprint: bytes, slot_bytes: int, capacity_bytes: int, report: Callable[[str], None]
    ) -> DiskTier | None:
        """Open a model's file, never larger than `capacity_bytes`, or None if the disk cache cannot be used here.

        `slot_bytes` is the size of most blocks; an existing file may have slots of another size. `report` is called
        on any thread, once for each cause, with the cause and the remedy.
        """
        location, warnings = Location(path, fingerprint, slot_bytes, capacity_bytes), WarnOnce(report)
        if not SUPPORTED:
            warnings.warn(messages.UNSUPPORTED)
        elif not location.header.slots:
            warnings.warn(messages.TOO_SMALL)
        else:
            try:
                block_file = location.open(False, warnings)
                if block_file.read_only:
                    warnings.warn(messages.READ_ONLY)
                return cls(location, block_file, warnings)
            except (OSError, BlockFileError) as error:
                warnings.warn(messages.failed("used", error))
        return None

    def lookup(self, names: Sequence[Name]) -> int:
        """Count the blocks at the beginning of a chain that are in the file."""
        with self._lock:
            index = self._current()
            return index.lookup(names) if index else 0

    def read(self, names: Sequence[Name]) -> Iterator[Block]:
        """Yield the blocks of a chain, each checked in a buffer that the next one overwrites."""
        with self._lock:
            if (index := self._current()) is None:
                return
            blocks, seen = index.locate(names), index.block_file.seen
            index.touch([block.name for block in blocks])
        try:
            for block, data in read_blocks(index.block_file, blocks):
                if not block.matches(data, index.block_file.header.slot_bytes):
                    self._remove_damaged(index, block.name, seen)
                    return
                self._read += 1
                yield block.with_data(data)
        except OSError as error:
            self._warnings.warn(messages.failed("read", error))

    def save(self, blocks: Iterable[Block]) -> None:
        """Write blocks in one batch."""
        try:
            with self._changing() as index:
                refused = set[Name]()
                for block in blocks:
                    if block.parent in refused or not self._save_block(index, block):
                        refused.add(block.name)
                self._write_uses(index)
        except (OSError, BlockFileError) as error:
            self._warnings.warn(messages.failed("written", error))

    def touch(self, names: Sequence[Name]) -> None:
        """Mark the blocks of a chain as used; the next `save` writes that to the file."""
        with self._lock:
            if index := self._current():
                index.touch(names)

    def pin(self, names: Sequence[Name]) -> None:
        """Pin these blocks in place of those pinned before; other servers do not see it."""
        with self._lock:
            self._pinned = names
            if self._index:
                self._index.lru.pin(names)

    def retire(self, names: Sequence[Name]) -> None:
        """Do nothing: its one user may go back to the commit before."""

    def remove_document(self, document: int) -> bool:
        """Remove and wipe the blocks that a document brought, and their descendants; return whether none is left."""
        try:
            with self._changing() as index:
                with self._lock:
                    index.remove_document(document)
                self._erase_orphans(index)
            return True
        except (OSError, BlockFileError) as error:
            self._warnings.warn(messages.failed("erased", error))
            return False

    def share_memory(self, parts: int) -> None:
        """Do nothing: its blocks are not in this process' memory."""

    def stats(self) -> TierStats:
        """Return the file's contents as last seen, and this server's counters; never waits."""
        if (index := self._index) is None:
            return TierStats("disk")
        lru, (_, slots, slot_bytes) = index.lru, index.block_file.header
        sizes = ((slots - lru.free) * slot_bytes, slots * slot_bytes)
        return TierStats("disk", len(lru), *sizes, self._read, self._written, self._evicted, self._damaged)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._index = None

    def _current(self) -> Index | None:
        """Return the index as other processes have left the file, or None if the file has vanished or is closed."""
        if self._index is None or self._index.block_file.vanished:
            return None
        try:
            self._index.refresh()
        except OSError as error:
            self._warnings.warn(messages.failed("read", error))
        return self._index

    def _remove_damaged(self, index: Index, name: Name, seen: int) -> None:
        """Remove a block whose data does not match, unless its slots may have been reused since `seen`."""
        with self._lock:
            if seen % 2 or index.block_file.outdated or index.block_file.seen != seen:
                return
            index.remove(name)
            self._damaged += 1
            self._warnings.warn(messages.DAMAGED)

    @contextmanager
    def _changing(self) -> Generator[Index]:
        """Lock the file against all others and yield its current index; raises OSError, BlockFileError."""
        with self._changing_lock, ExitStack() as stack:
            if (index := self._index) is None:
                raise OSError(errno.EBADF, "it is closed")
            stack.enter_context(index.block_file.locked())
            if index.block_file.vanished:
                index = self._reopen()
                stack.enter_context(index.block_file.locked())
            if index.block_file.read_only:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            with self._lock:
                index.refresh()
            self._erase_orphans(index)
            yield index

    def _reopen(self) -> Index:
        """Open the file that replaces a vanished file."""
        self._warnings.warn(messages.VANISHED)
        index = Index(self._location.open(True, self._warnings))
        with self._lock:
            index.lru.pin(self._pinned)
            self._index = index
        return index

    def _erase_orphans(self, index: Index) -> None:
        """Erase slots that cannot be found; raises OSError, and then the next change tries again."""
        with self._lock:
            slots, damaged = index.orphans()
            self._damaged += damaged
        if damaged:
            self._warnings.warn(messages.DAMAGED)
        self._erase(index, slots)

    def _save_block(self, index: Index, block: Block) -> bool:
        """Write a block unless it is there already; returns false if there is no room. Raises OSError."""
        with self._lock:
            if index.lookup([block.name]):
                index.touch([block.name])
                return True
            allocation = index.allocate(block)
        if allocation is None:
            return False
        records = describe(block, allocation.slots, index.block_file.header.slot_bytes, int(time.time()))
        try:
            self._erase(index, allocation.freed)
            index.block_file.write(allocation.slots, records, block.data)
        except OSError:
            with self._lock:
                index.cancel(block.name, allocation)
            raise
        with self._lock:
            index.note_written(allocation.slots, records)
            self._written += 1
            self._evicted += allocation.evicted
        return True

    def _erase(self, index: Index, slots: Sequence[int]) -> None:
        if not slots:
            return
        index.block_file.erase(slots)
        with self._lock:
            index.note_written(slots, np.zeros(len(slots), RECORD))

    def _write_uses(self, index: Index) -> None:
        with self._lock:
            slots, records = index.take_pending_uses(int(time.time()))
        index.block_file.write_records(slots, records)
        with self._lock:
            index.note_written(slots, records)
