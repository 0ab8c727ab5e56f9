"""The header of a block file, and where its table and slots are; `block_file.py` documents the format."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

import xxhash

from kv_store.disk.record import RECORD_BYTES

PAGE = 4096
MAGIC, VERSION = b"EFIMKV\r\n", 1
FIELDS = struct.Struct("<8sIIQ32s")
CHECK = struct.Struct("<Q")
HEADER_BYTES = FIELDS.size + CHECK.size


class BlockFileError(Exception):
    """A file that cannot be used."""


class NotABlockFile(BlockFileError):
    """The file is something else."""


class OtherVersion(BlockFileError):
    """The file has another version of the format."""


class DamagedHeader(BlockFileError):
    """The header does not match its check."""


class WrongLength(BlockFileError):
    """The file is shorter than its table, or longer than all its slots."""


class OtherModel(BlockFileError):
    """The file belongs to another model."""


class OtherSize(BlockFileError):
    """The file has another number of slots than it should."""


class Header(NamedTuple):
    """The fingerprint (32 bytes) of a file's model, the number of its slots, and the size of each in bytes."""

    fingerprint: bytes
    slots: int
    slot_bytes: int

    @classmethod
    def within(cls, capacity: int, fingerprint: bytes, slot_bytes: int) -> Header:
        """Return the header with the most slots, perhaps none, that fit a file of at most `capacity` bytes."""
        header = cls(fingerprint, max(0, (capacity - PAGE) // (RECORD_BYTES + slot_bytes)), slot_bytes)
        while header.slots and header.end > capacity:
            header = header._replace(slots=header.slots - 1)
        return header

    @classmethod
    def read(cls, file: int) -> Header:
        """Read and check the header of an open file; raises OSError, BlockFileError."""
        raw = os.pread(file, HEADER_BYTES, 0)
        if raw[: len(MAGIC)] != MAGIC:
            raise NotABlockFile("the file is of another kind")
        if len(raw) < HEADER_BYTES:
            raise WrongLength("the file is truncated")
        _, version, slots, slot_bytes, fingerprint = FIELDS.unpack_from(raw)
        if version != VERSION:
            raise OtherVersion("the file is of another version")
        if CHECK.unpack_from(raw, FIELDS.size) != (xxhash.xxh3_64_intdigest(raw[: FIELDS.size]),):
            raise DamagedHeader("the file's header is damaged")
        header = cls(fingerprint, slots, slot_bytes)
        if not slot_bytes or not header.data <= os.fstat(file).st_size <= header.end:
            raise WrongLength("the file is too short or too long")
        return header

    @property
    def packed(self) -> bytes:
        """The header as bytes, with its check."""
        fields = FIELDS.pack(MAGIC, VERSION, self.slots, self.slot_bytes, self.fingerprint)
        return fields + CHECK.pack(xxhash.xxh3_64_intdigest(fields))

    @property
    def data(self) -> int:
        """The offset of the first slot."""
        return PAGE + -(-self.slots * RECORD_BYTES // PAGE) * PAGE

    @property
    def end(self) -> int:
        """The offset behind the last slot; the file is never longer."""
        return self.slot(self.slots)

    def slot(self, number: int) -> int:
        """Return the offset of a slot."""
        return self.data + number * self.slot_bytes

    def record(self, number: int) -> int:
        """Return the offset of a slot's record."""
        return PAGE + number * RECORD_BYTES
