"""The header of a file of blocks, and where in the file is what; `segment.py` has the format."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

import xxhash

from kv_store.disk.record import RECORD_BYTES

PAGE = 4096
MAGIC, VERSION = b"EFIMKV\r\n", 1
HEADER = struct.Struct("<8sIIQ32s")
CHECK = struct.Struct("<Q")
CHECKED = HEADER.size + CHECK.size  # bytes


class SegmentError(Exception):
    """A file that cannot be used."""


class NotASegment(SegmentError):
    """The file is something else."""


class OtherVersion(SegmentError):
    """The file has another version of the format."""


class DamagedHeader(SegmentError):
    """The header does not fit its check."""


class WrongLength(SegmentError):
    """The file is shorter than its table, or longer than all its slots."""


class OtherModel(SegmentError):
    """The file is that of another model."""


class OtherSize(SegmentError):
    """The file has another number of slots than it should."""


class Geometry(NamedTuple):
    """Whose blocks a file is for (32 bytes), and how many slots of how many bytes it has."""

    fingerprint: bytes
    slots: int
    slot_bytes: int

    @classmethod
    def within(cls, capacity: int, fingerprint: bytes, slot_bytes: int) -> Geometry:
        """As many slots as a file of at most `capacity` bytes can have; perhaps none."""
        geometry = cls(fingerprint, max(0, (capacity - PAGE) // (RECORD_BYTES + slot_bytes)), slot_bytes)
        while geometry.slots and geometry.end > capacity:
            geometry = geometry._replace(slots=geometry.slots - 1)
        return geometry

    @classmethod
    def of(cls, file: int) -> Geometry:
        """Read and check the header of an open file; raises OSError, SegmentError."""
        raw = os.pread(file, CHECKED, 0)
        if raw[: len(MAGIC)] != MAGIC:
            raise NotASegment("its file is of another kind")
        if len(raw) < CHECKED:
            raise WrongLength("its file was cut off")
        _, version, slots, slot_bytes, fingerprint = HEADER.unpack_from(raw)
        if version != VERSION:
            raise OtherVersion("its file is of another version")
        if CHECK.unpack_from(raw, HEADER.size) != (xxhash.xxh3_64_intdigest(raw[: HEADER.size]),):
            raise DamagedHeader("its file is damaged")
        geometry = cls(fingerprint, slots, slot_bytes)
        if not slot_bytes or not geometry.data <= os.fstat(file).st_size <= geometry.end:
            raise WrongLength("its file was cut off or lengthened")
        return geometry

    @property
    def header(self) -> bytes:
        """The header and its check."""
        header = HEADER.pack(MAGIC, VERSION, self.slots, self.slot_bytes, self.fingerprint)
        return header + CHECK.pack(xxhash.xxh3_64_intdigest(header))

    @property
    def data(self) -> int:
        """Where the first slot begins."""
        return PAGE + -(-self.slots * RECORD_BYTES // PAGE) * PAGE

    @property
    def end(self) -> int:
        """Where the last slot ends: the file is never longer."""
        return self.slot(self.slots)

    def slot(self, number: int) -> int:
        """Where a slot begins."""
        return self.data + number * self.slot_bytes

    def record(self, number: int) -> int:
        """Where the record of a slot begins."""
        return PAGE + number * RECORD_BYTES
