r"""The file in which a model's blocks are kept, `blocks.kv`: a header, a table of records, slots for data.

All numbers are little endian. A check is XXH3 with 64 bits; where there is room for 32, the lower ones.

Header, one page of 4096 bytes:

- 0..7 are the magic `EFIMKV\r\n`. What begins otherwise is refused (`NotASegment`).
- 8..11 are the version, 1. Another one is refused (`OtherVersion`): nothing is converted, blocks can be computed.
- 12..15 say how many slots there are, 16..23 how many bytes each has.
- 24..55 are the fingerprint of the model. Another one is refused (`OtherModel`).
- 56..63 are the check of 0..55. Where it does not fit, the file is refused (`DamagedHeader`): blocks would be looked
  for, and written, in wrong places.
- 64..71 count changes, under no check. The count grows before a change and after it, and is odd in between. Who finds
  another count than was seen last, or an odd one, has to read the table again.
- The rest is zero and never read.

Table, from 4096 on, a record of 64 bytes for each slot (`record.RECORD`):

- 0..15 are the block's name, 16..31 its parent's, 32..39 the tag of the document that brought it.
- 40..47 are the check of what the slot holds of the block: damaged, torn and overwritten data is a missing block.
- 48..51 are the size of the whole block, 52..55 when it was used last, in Unix seconds.
- 56 is the codec, 57 is 1 where the block is approximate. A block with an unknown codec is none.
- 58 tells which part of the block this is, 59 how many there are; each but the last fills its slot. A block that
  lacks a part is none. One that needs more than 255 is never written.
- 60..63 are the check of 0..59, seeded with the slot's number. A record that does not fit it, or was moved from
  another slot, is none.
- 64 zeros are a free slot.

Data, from the next multiple of 4096 on:

- Slot n begins n times the bytes of a slot after the first. What it has beyond its part of a block is zero.
- The file grows as slots are first written, the lowest first. A file that is shorter than its table or longer than
  all its slots is refused (`WrongLength`). Slots behind its end hold nothing.

Changes are made under an exclusive `flock` of the file, which the system takes back from a process that dies. Records
of what goes are zeroed first, then data is written, then its records. A kill in between leaves free slots; a crash of
the machine, which may keep some of these and not others, leaves checks that do not fit. So nothing is ever synced.

Reading takes no lock. Bytes are copied to private memory, checked there, and then used: whatever anyone does to the
file meanwhile is a check that does not fit. The file is not mapped into memory: where another process truncates a
mapped file, the system ends this one with SIGBUS, which no Python code can catch.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from kv_store.atomic_files import make_folder, new_file, replace_file
from kv_store.block import Bytes
from kv_store.disk.header import CHECKED, Geometry
from kv_store.disk.record import RECORD, RECORD_BYTES, Records, runs

if sys.platform != "win32":
    import fcntl

AVAILABLE = sys.platform != "win32" and hasattr(os, "preadv")
COUNT, COUNT_AT = struct.Struct("<Q"), CHECKED
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class Segment:
    """An open file. Reading is safe on any thread, changing on one that has `locked` it. All may raise OSError.

    The file is closed when nobody refers to this any more: else its number could be another file's under a reader.
    """

    def __init__(self, path: Path, descriptor: int, read_only: bool) -> None:
        """Own a descriptor; raises SegmentError where the file cannot be used."""
        self.path, self.read_only = path, read_only
        self._file = descriptor
        # Not at exit: a writer may outlive what closes its tier.
        weakref.finalize(self, os.close, descriptor).atexit = False
        self.geometry = Geometry.of(descriptor)
        self.seen = -1  # the count of changes in the records read last; odd while somebody changes something
        self._changed = False

    @classmethod
    def open(cls, path: Path) -> Segment:
        """Open a file, only to read where no more is allowed; raises OSError, SegmentError."""
        try:
            return cls(path, os.open(path, os.O_RDWR), False)
        except OSError as error:
            if error.errno not in FORBIDDEN:
                raise
        return cls(path, os.open(path, os.O_RDONLY), True)

    @classmethod
    def create(cls, path: Path, geometry: Geometry) -> Segment:
        """Make an empty file, and open it; raises OSError, FileExistsError where there is one, SegmentError."""
        make_folder(path.parent)
        new_file(path, geometry.header.ljust(geometry.data, b"\0"))
        return cls.open(path)

    @classmethod
    def replace(cls, path: Path, geometry: Geometry) -> Segment:
        """Put an empty file in place of what is there; who uses that finds that it has vanished."""
        replace_file(path, geometry.header.ljust(geometry.data, b"\0"))
        return cls.open(path)

    @property
    def vanished(self) -> bool:
        """Whether the path leads to another file now, or to none, or the file has lost its table."""
        try:
            there = os.stat(self.path)
        except OSError:
            return True
        here = os.fstat(self._file)
        return not os.path.samestat(here, there) or here.st_size < self.geometry.data

    @property
    def outdated(self) -> bool:
        """Whether somebody else has changed something since the records were read, or did so meanwhile."""
        return self._count() != self.seen

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep all others from changing the file; waits for them. Not for two threads at once."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            changed, self._changed = self._changed, False
            try:
                if changed:
                    self._count_change(under_way=False)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def records(self) -> Records:
        """Read the whole table; the records are to be checked, and those behind the file's end are zero."""
        count, records = self._count(), np.empty(self.geometry.slots, RECORD)
        self._fill(records.view(np.uint8), self.geometry.record(0))
        self.seen = -1 if count % 2 else count
        return records

    def read(self, first: int, buffer: Bytes) -> int:
        """Fill a buffer from a slot on; returns how many bytes there were, what is missing is zero."""
        return self._fill(buffer, self.geometry.slot(first))

    def write(self, slots: Sequence[int], records: Records, data: Bytes) -> None:
        """Write a block and its records into slots that nobody needs, ascending."""
        self.write_records(slots, np.zeros(len(slots), RECORD))
        slot_bytes, left = self.geometry.slot_bytes, data
        for first, count in runs(slots):
            self._write(left[: count * slot_bytes].data, self.geometry.slot(first))
            left = left[count * slot_bytes :]
        rest = len(slots) * slot_bytes - len(data)
        self._write(bytes(rest), self.geometry.slot(slots[-1] + 1) - rest)
        self.write_records(slots, records)

    def write_records(self, slots: Sequence[int], records: Records) -> None:
        """Write records, and no data."""
        if slots and not self._changed:
            self._count_change(under_way=True)
            self._changed = True
        raw, at = records.view(np.uint8).data, 0
        for first, count in runs(slots):
            size = count * RECORD_BYTES
            self._write(raw[at : at + size], self.geometry.record(first))
            at += size

    def erase(self, slots: Sequence[int]) -> None:
        """Make slots free, and wipe what they hold."""
        self.write_records(slots, np.zeros(len(slots), RECORD))
        end = os.fstat(self._file).st_size
        for slot in slots:
            start = self.geometry.slot(slot)
            self._write(bytes(max(0, min(self.geometry.slot_bytes, end - start))), start)

    def _count(self) -> int:
        return int.from_bytes(os.pread(self._file, COUNT.size, COUNT_AT), "little")

    def _count_change(self, under_way: bool) -> None:
        count = self._count()
        self.seen = (count + 1 + (count % 2 == under_way)) % (1 << 64)
        self._write(COUNT.pack(self.seen), COUNT_AT)

    def _fill(self, buffer: Bytes, at: int) -> int:
        done = 0
        while done < len(buffer) and (count := os.preadv(self._file, [buffer[done:].data], at + done)):
            done += count
        buffer[done:] = 0
        return done

    def _write(self, data: bytes | memoryview, at: int) -> None:
        left = memoryview(data)
        while left:
            count = os.pwrite(self._file, left, at)
            left, at = left[count:], at + count
