"""Records: the 64 bytes that describe what a slot holds. `block_file.py` documents the format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from kv_store.block import NAME_BYTES, Block, Bytes, Name

RECORD = np.dtype(
    [
        ("name", f"V{NAME_BYTES}"),
        ("parent", f"V{NAME_BYTES}"),
        ("document", "<u8"),
        ("data_check", "<u8"),
        ("size", "<u4"),
        ("used", "<u4"),
        ("form", "u1"),
        ("approximate", "u1"),
        ("part", "u1"),
        ("parts", "u1"),
        ("own_check", "<u4"),
    ]
)
RECORD_BYTES = RECORD.itemsize
CHECKED_BYTES = RECORD_BYTES - 4  # all but own_check
MAX_PARTS = 255
WORDS = RECORD_BYTES // 8
# Forms of blocks in this version of the file: three formats, of whole blocks or parts of them, perhaps with states.
KNOWN_FORMS = frozenset(form for form in range(32) if form % 8 < 3)

Records = npt.NDArray[np.void]  # of RECORD
Slots = npt.NDArray[np.intp]


class Record(NamedTuple):
    """A record as a tuple; RECORD describes the fields."""

    name: Name
    parent: Name
    document: int
    data_check: int
    size: int
    used: int
    form: int
    approximate: int
    part: int
    parts: int
    own_check: int

    @property
    def of_block(self) -> tuple[Name, Name, int, int, int, int, int]:
        """The fields that all parts of a block have in common, except the time of use."""
        return (self.name, self.parent, self.document, self.size, self.form, self.approximate, self.parts)

    @property
    def without_use(self) -> Record:
        """The record without the fields that a use of the block changes."""
        return self._replace(used=0, own_check=0)


def parse(records: Records) -> list[Record]:
    """Convert records to tuples, which Python compares quickly."""
    return [Record._make(row) for row in records.tolist()]


def parts_of(size: int, slot_bytes: int) -> int:
    """Count the slots that a block of `size` bytes takes."""
    return max(1, -(-size // slot_bytes))


def pieces(data: Bytes, slot_bytes: int) -> list[Bytes]:
    """Split a block's bytes into the parts that its slots hold, as views of `data`."""
    return [data[i * slot_bytes : (i + 1) * slot_bytes] for i in range(parts_of(len(data), slot_bytes))]


def describe(block: Block, slots: Sequence[int], slot_bytes: int, used: int) -> Records:
    """Return the records of a block in its slots; `used` in Unix seconds."""
    records = np.zeros(len(slots), RECORD)
    of_block = (np.void(block.name), np.void(block.parent), block.document)
    for part, piece in enumerate(pieces(block.data, slot_bytes)):
        what = (len(block.data), used, block.form, block.approximate, part, len(slots))
        records[part] = (*of_block, xxhash.xxh3_64_intdigest(piece.data), *what, 0)
    seal(records, slots)
    return records


def seal(records: Records, slots: Iterable[int]) -> None:
    """Set each record's check of itself, seeded with the slot it will be written to."""
    records["own_check"] = _checks(records, slots)


def changed(before: Records, after: Records) -> Slots:
    """Return the slots whose records differ between two tables."""
    return np.unique(np.flatnonzero(_words(before).ravel() != _words(after).ravel()) // WORDS)


def damaged(records: Records, slots: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Return which records, in the given slots, are neither all zero nor match their own check."""
    return _words(records).any(1) & (records["own_check"] != _checks(records, slots))


def whole_blocks(found: Iterable[tuple[int, Record]], slot_bytes: int) -> Iterator[tuple[Record, tuple[int, ...]]]:
    """Combine sound records, given with their slots, into blocks; yields each complete block's record and slots.

    The later one of two records of the same part is ignored.
    """
    parts = dict[Name, dict[int, tuple[int, Record]]]()
    for slot, record in found:
        parts.setdefault(record.name, {}).setdefault(record.part, (slot, record))
    for by_part in parts.values():
        _, first = next(iter(by_part.values()))
        known = first.form in KNOWN_FORMS and first.parts == parts_of(first.size, slot_bytes)
        complete = by_part.keys() == set(range(first.parts))
        if known and complete and all(record.of_block == first.of_block for _, record in by_part.values()):
            yield first, tuple(by_part[part][0] for part in range(first.parts))


def runs(slots: Iterable[int]) -> list[tuple[int, int]]:
    """Group slots into runs of adjacent ones, in their order: the first slot of each run and its length."""
    found = list[tuple[int, int]]()
    for slot in slots:
        if found and slot == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((slot, 1))
    return found


def _words(records: Records) -> npt.NDArray[np.uint64]:
    return records.view(np.uint64).reshape(-1, WORDS)


def _checks(records: Records, slots: Iterable[int]) -> list[int]:
    raw, check = records.view(np.uint8).data, xxhash.xxh3_64_intdigest
    starts = range(0, len(raw), RECORD_BYTES)
    checks = [check(raw[at : at + CHECKED_BYTES], slot) for at, slot in zip(starts, slots, strict=True)]
    return [each & 0xFFFFFFFF for each in checks]
