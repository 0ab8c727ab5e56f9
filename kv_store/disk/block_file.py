r"""The file in which a model's blocks are stored, `blocks.kv`: a header, a table of records, slots for data.

All numbers are little endian. A check is a 64-bit XXH3, or its lower 32 bits in a field of 4 bytes.

Header, one page of 4096 bytes:

- 0..7 are the magic `EFIMKV\r\n`. A file that begins otherwise is refused (`NotABlockFile`).
- 8..11 are the version, 1. Any other is refused (`OtherVersion`): nothing is converted, as blocks can be recomputed.
- 12..15 are the number of slots, 16..23 the bytes of each.
- 24..55 are the fingerprint of the model. Any other is refused (`OtherModel`).
- 56..63 are the check of 0..55. If it does not match, the file is refused (`DamagedHeader`): blocks would be read
  from, and written to, wrong places.
- 64..71 count changes, and have no check. The count grows before a change and after it, so it is odd in between.
  Whoever finds another count than it saw last, or an odd one, must read the table again.
- The rest is zero and never read.

Table, from 4096 on, a record of 64 bytes for each slot (`record.RECORD`):

- 0..15 are the block's name, 16..31 its parent's, 32..39 the tag of the document that brought it.
- 40..47 are the check of the slot's part of the block: damaged, torn and overwritten data makes a missing block.
- 48..51 are the size of the whole block, 52..55 when it was last used, in Unix seconds.
- 56 is the form of the block's bytes, 0 to 2, which its codec knows; a block with any other is ignored. 57 is 1 if
  the block is approximate.
- 58 is the number of this part of the block, 59 how many parts there are; each but the last fills its slot. A block
  that lacks a part is ignored. A block that needs more than 255 parts is never written.
- 60..63 are the check of 0..59, seeded with the slot's number. A record that does not match it, or was moved from
  another slot, is ignored.
- 64 zeros are a free slot.

Data, from the next multiple of 4096 on:

- Slot n begins n slot sizes after the first. The bytes of a slot behind its part of a block are zero.
- The file grows as slots are first written, the lowest first. A file that is shorter than its table or longer than
  all its slots is refused (`WrongLength`). Slots behind its end are empty.

Changes are made under an exclusive `flock` of the file, which the system takes back from a process that dies. Records
of evicted blocks are zeroed first, then data is written, then its records. A kill in between leaves free slots; a
crash of the machine, which may keep some of these writes and not others, leaves checks that do not match. So nothing
is ever synced.

Reading takes no lock. Bytes are copied to private memory, checked there, and then used: whatever happens to the file
meanwhile, the check does not match. The file is not mapped into memory: if another process truncates a mapped file,
the system ends this one with SIGBUS, which no Python code can catch.
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

from kv_store.atomic_files import create_file, make_folder, replace_file
from kv_store.block import Bytes
from kv_store.disk.header import HEADER_BYTES, Header
from kv_store.disk.record import RECORD, RECORD_BYTES, Records, runs

if sys.platform != "win32":
    import fcntl

SUPPORTED = sys.platform != "win32" and hasattr(os, "preadv")
COUNT, COUNT_AT = struct.Struct("<Q"), HEADER_BYTES
FORBIDDEN_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS)


class BlockFile:
    """An open file. Reading is safe on any thread, changing only under the lock. All may raise OSError.

    The file is closed when the last reference to this object goes: closed earlier, its descriptor could be
    reused for another file while a reader uses it.
    """

    def __init__(self, path: Path, descriptor: int, read_only: bool) -> None:
        """Own a descriptor; raises BlockFileError if the file cannot be used."""
        self.path, self.read_only = path, read_only
        self._file = descriptor
        # Not at exit: a writer may outlive its tier.
        weakref.finalize(self, os.close, descriptor).atexit = False
        self.header = Header.read(descriptor)
        self.seen = -1  # the count of changes when the records were last read; odd while this object changes the file
        self._changed = False

    @classmethod
    def open(cls, path: Path) -> BlockFile:
        """Open a file, read-only if writing is forbidden; raises OSError, BlockFileError."""
        try:
            return cls(path, os.open(path, os.O_RDWR), False)
        except OSError as error:
            if error.errno not in FORBIDDEN_ERRNOS:
                raise
        return cls(path, os.open(path, os.O_RDONLY), True)

    @classmethod
    def create(cls, path: Path, header: Header) -> BlockFile:
        """Create an empty file and open it; raises OSError (FileExistsError if there is one), BlockFileError."""
        make_folder(path.parent)
        create_file(path, header.packed.ljust(header.data, b"\0"))
        return cls.open(path)

    @classmethod
    def replace(cls, path: Path, header: Header) -> BlockFile:
        """Put an empty file in place of the existing one, which its users then see as `vanished`, and open it."""
        replace_file(path, header.packed.ljust(header.data, b"\0"))
        return cls.open(path)

    @property
    def vanished(self) -> bool:
        """Whether the path now leads to another file or to none, or the file has lost its table."""
        try:
            there = os.stat(self.path)
        except OSError:
            return True
        here = os.fstat(self._file)
        return not os.path.samestat(here, there) or here.st_size < self.header.data

    @property
    def outdated(self) -> bool:
        """Whether another process has changed the file since, or while, the records were last read."""
        return self._count() != self.seen

    @contextmanager
    def locked(self) -> Generator[None]:
        """Wait for, and hold, the exclusive right to change the file. Not safe for two threads at once."""
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
        """Read the whole table, unchecked; records behind the end of the file are zero."""
        count, records = self._count(), np.empty(self.header.slots, RECORD)
        self._fill(records.view(np.uint8), self.header.record(0))
        self.seen = -1 if count % 2 else count
        return records

    def read(self, first: int, buffer: Bytes) -> int:
        """Fill a buffer from a slot on; returns how many bytes the file had, and zeroes the rest."""
        return self._fill(buffer, self.header.slot(first))

    def write(self, slots: Sequence[int], records: Records, data: Bytes) -> None:
        """Write a block and its records into free slots, ascending."""
        self.write_records(slots, np.zeros(len(slots), RECORD))
        slot_bytes, left = self.header.slot_bytes, data
        for first, count in runs(slots):
            self._write(left[: count * slot_bytes].data, self.header.slot(first))
            left = left[count * slot_bytes :]
        rest = len(slots) * slot_bytes - len(data)
        self._write(bytes(rest), self.header.slot(slots[-1] + 1) - rest)
        self.write_records(slots, records)

    def write_records(self, slots: Sequence[int], records: Records) -> None:
        """Write records without data."""
        if slots and not self._changed:
            self._count_change(under_way=True)
            self._changed = True
        raw, at = records.view(np.uint8).data, 0
        for first, count in runs(slots):
            size = count * RECORD_BYTES
            self._write(raw[at : at + size], self.header.record(first))
            at += size

    def erase(self, slots: Sequence[int]) -> None:
        """Free slots and wipe their data."""
        self.write_records(slots, np.zeros(len(slots), RECORD))
        end = os.fstat(self._file).st_size
        for slot in slots:
            start = self.header.slot(slot)
            self._write(bytes(max(0, min(self.header.slot_bytes, end - start))), start)

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
