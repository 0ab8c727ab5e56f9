"""The file of blocks byte for byte as it is described, and every way in which a file can be wrong."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from kv_store.disk.block_file import BlockFile
from kv_store.disk.header import BlockFileError, DamagedHeader, Header, NotABlockFile, OtherVersion, WrongLength
from kv_store.disk.record import RECORD_BYTES, Records, changed, damaged, describe, parse, runs, whole_blocks
from tests.unit.kv_blocks import FINGERPRINT, SLOT, block_of, name_of

SLOTS = 100
HEADER = Header(FINGERPRINT, SLOTS, SLOT)
TABLE, DATA = 4096, 4096 + 8192  # 100 records take more than one page
NOW = 1_700_000_000
LARGE = block_of(0, 1, 3 * SLOT - 5)


@pytest.fixture
def block_file(tmp_path: Path) -> BlockFile:
    return BlockFile.create(tmp_path / "model" / "blocks.kv", HEADER)


def write(block_file: BlockFile, slots: list[int]) -> Records:
    records = describe(LARGE, slots, SLOT, NOW)
    with block_file.locked():
        block_file.write(slots, records, LARGE.data)
    return records


def test_the_header_is_as_described(block_file: BlockFile) -> None:
    raw = block_file.path.read_bytes()
    assert raw[:24] == b"EFIMKV\r\n" + struct.pack("<IIQ", 1, SLOTS, SLOT)
    assert raw[24:56] == FINGERPRINT
    assert raw[56:64] == struct.pack("<Q", xxhash.xxh3_64_intdigest(raw[:56]))
    assert raw[64:] == bytes(DATA - 64), "nothing was changed yet, all slots are free, there is no data"


def test_records_and_data_are_as_described(block_file: BlockFile) -> None:
    slots = [2, 3, 7]
    write(block_file, slots)
    raw = block_file.path.read_bytes()
    content = LARGE.data.tobytes()
    for part, slot in enumerate(slots):
        record, piece = raw[TABLE + 64 * slot :][:64], content[SLOT * part : SLOT * (part + 1)]
        assert record[:32] == name_of(0, 1) + name_of(0, 0)
        check = xxhash.xxh3_64_intdigest(piece)
        assert record[32:56] == struct.pack("<QQII", LARGE.document, check, len(content), NOW)
        assert record[56:60] == bytes([LARGE.form, LARGE.approximate, part, 3])
        assert record[60:] == struct.pack("<Q", xxhash.xxh3_64_intdigest(record[:60], slot))[:4]
        assert raw[DATA + SLOT * slot :][:SLOT] == piece.ljust(SLOT, b"\0")
    assert len(raw) == DATA + SLOT * 8, "the file ends with the last slot that was written"


def test_the_records_of_a_file_give_the_block(block_file: BlockFile) -> None:
    write(block_file, [2, 3, 7])
    records = block_file.records()
    assert np.flatnonzero(damaged(records, range(SLOTS))).tolist() == []
    ((first, slots),) = whole_blocks(((slot, parse(records)[slot]) for slot in (7, 3, 2)), SLOT)
    assert (first.name, slots) == (LARGE.name, (2, 3, 7))


@pytest.mark.parametrize("slot", range(3))
def test_a_block_that_lacks_a_part_is_ignored(block_file: BlockFile, slot: int) -> None:
    records = parse(write(block_file, [0, 1, 2]))
    del records[slot]
    assert list(whole_blocks(enumerate(records), SLOT)) == []


def test_parts_that_disagree_on_the_size_are_ignored() -> None:
    first, second = describe(LARGE, [0, 1, 2], SLOT, NOW), describe(block_of(0, 1, 3 * SLOT), [0, 1, 2], SLOT, NOW)
    assert list(whole_blocks(enumerate(parse(np.concatenate([first[:2], second[2:]]))), SLOT)) == []


@pytest.mark.parametrize("field, value", [("form", 3), ("size", 3 * SLOT + 1), ("size", 2 * SLOT)])
def test_a_block_with_impossible_records_is_ignored(field: str, value: int) -> None:
    records = describe(LARGE, [0, 1, 2], SLOT, NOW)
    records[field] = value
    assert list(whole_blocks(enumerate(parse(records)), SLOT)) == []


def test_a_record_in_another_slot_is_damaged(block_file: BlockFile) -> None:
    write(block_file, [0, 1, 2])
    records = block_file.records()
    records[[0, 1]] = records[[1, 0]]
    assert np.flatnonzero(damaged(records, range(SLOTS))).tolist() == [0, 1]


@given(st.integers(0, SLOTS - 1), st.integers(0, RECORD_BYTES - 1), st.integers(1, 255))
def test_any_damage_to_a_record_is_noticed(slot: int, at: int, flip: int) -> None:
    before = describe(block_of(0, 0), [slot], SLOT, NOW)
    after = before.copy()
    after.view(np.uint8)[at] ^= flip
    assert not damaged(before, [slot])[0]
    assert damaged(after, [slot])[0]
    assert changed(before, after).tolist() == [0]


def patched(at: int, raw: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content[:at] + raw + content[at + len(raw) :]


@pytest.mark.parametrize(
    "damage, error",
    [
        (patched(0, b"efimkv"), NotABlockFile),
        (lambda _: b"", NotABlockFile),
        (lambda _: b"some text of the user's", NotABlockFile),
        (patched(8, b"\2"), OtherVersion),
        (patched(12, b"\1"), DamagedHeader),
        (patched(16, b"\1"), DamagedHeader),
        (patched(24, bytes(32)), DamagedHeader),
        (patched(56, b"\0\0"), DamagedHeader),
        (lambda content: content[:60], WrongLength),
        (lambda content: content[:-1], WrongLength),
        (lambda content: content + bytes(SLOTS * SLOT + 1), WrongLength),
        (lambda _: Header(FINGERPRINT, 0, 0).packed.ljust(4096, b"\0"), WrongLength),
    ],
)
def test_a_wrong_file_is_refused(
    block_file: BlockFile, damage: Callable[[bytes], bytes], error: type[BlockFileError]
) -> None:
    block_file.path.write_bytes(damage(block_file.path.read_bytes()))
    with pytest.raises(error):
        BlockFile.open(block_file.path)


def test_a_file_as_long_as_all_its_slots_is_opened(block_file: BlockFile) -> None:
    with block_file.path.open("ab") as file:
        file.write(bytes(SLOTS * SLOT))
    assert BlockFile.open(block_file.path).header == HEADER


def test_only_the_owner_can_read_the_file(block_file: BlockFile) -> None:
    assert block_file.path.stat().st_mode & 0o777 == 0o600
    assert block_file.path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(block_file.path.parent) == ["blocks.kv"]


def test_a_replaced_file_has_vanished_for_others(block_file: BlockFile) -> None:
    assert not block_file.vanished
    with pytest.raises(FileExistsError):
        BlockFile.create(block_file.path, HEADER)
    assert not block_file.vanished
    second = BlockFile.replace(block_file.path, HEADER)
    assert (block_file.vanished, second.vanished) == (True, False)
    second.path.unlink()
    assert second.vanished


def test_a_file_that_lost_its_table_has_vanished(block_file: BlockFile) -> None:
    os.truncate(block_file.path, DATA)
    assert not block_file.vanished
    os.truncate(block_file.path, DATA - 1)
    assert block_file.vanished


def test_reads_behind_the_end_are_zero_and_counted(block_file: BlockFile) -> None:
    write(block_file, [0, 1, 2])
    buffer = np.full(5 * SLOT, 7, np.uint8)
    assert block_file.read(1, buffer) == 2 * SLOT
    assert buffer[: 2 * SLOT].tobytes() == LARGE.data.tobytes()[SLOT:].ljust(2 * SLOT, b"\0")
    assert not buffer[2 * SLOT :].any()
    os.truncate(block_file.path, TABLE + 64)
    assert parse(block_file.records())[0].name == LARGE.name
    assert block_file.records()[1:].tobytes() == bytes(64 * (SLOTS - 1))


def test_partial_reads_and_writes_are_completed(block_file: BlockFile, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, preadv = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:10], at))
    monkeypatch.setattr(os, "preadv", lambda file, buffers, at: preadv(file, [buffers[0][:10]], at))
    records = write(block_file, [0, 1, 2])
    buffer = np.empty(len(LARGE.data), np.uint8)
    assert block_file.read(0, buffer) == len(buffer)
    assert buffer.tobytes() == LARGE.data.tobytes()
    assert block_file.records()[:3].tobytes() == records.tobytes()


def test_a_record_is_free_before_its_data_is_written_and_written_after_it(
    block_file: BlockFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, calls = os.pwrite, list[tuple[int, bool]]()

    def noting(file: int, data: memoryview, at: int) -> int:
        calls.append((at, any(data)))
        return pwrite(file, data, at)

    monkeypatch.setattr(os, "pwrite", noting)
    write(block_file, [0, 1, 5])
    count, records = 64, (TABLE, TABLE + 5 * RECORD_BYTES)  # the data's runs are as long as those of the records
    freed = [(count, True), *((at, False) for at in records)]
    data = [(DATA, True), (DATA + 5 * SLOT, True), (DATA + 6 * SLOT - 5, False)]
    assert calls == [*freed, *data, *((at, True) for at in records), (count, True)]


def test_erasing_wipes_slots_and_does_not_grow_the_file(block_file: BlockFile) -> None:
    write(block_file, [0, 1, 2])
    size = block_file.path.stat().st_size
    with block_file.locked():
        block_file.erase([0, 1, 2, 3])
    raw = block_file.path.read_bytes()
    assert raw[72:] == bytes(size - 72)


def test_others_see_when_a_change_begins_and_ends(block_file: BlockFile) -> None:
    other = BlockFile.open(block_file.path)
    for each in (block_file, other):
        each.records()
    with block_file.locked():
        assert not other.outdated
        block_file.erase([0])
        assert other.outdated
        other.records()
        assert other.outdated, "what was read may be half done"
    other.records()
    assert (block_file.outdated, other.outdated) == (False, False)
    with block_file.locked():
        pass
    assert not other.outdated


def test_an_unfinished_change_makes_everyone_read_again(block_file: BlockFile) -> None:
    with block_file.path.open("r+b") as file:
        file.seek(64)
        file.write(struct.pack("<Q", 41))
    block_file.records()
    assert block_file.outdated
    write(block_file, [0, 1, 2])
    assert block_file.path.read_bytes()[64:72] == struct.pack("<Q", 44)


def test_only_one_at_a_time_changes_a_file(block_file: BlockFile) -> None:
    with block_file.path.open("r+b") as file:
        with block_file.locked(), pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@given(st.integers(0, 10**6), st.integers(1, 5000))
def test_a_file_has_as_many_slots_as_it_may(capacity: int, slot_bytes: int) -> None:
    header = Header.within(capacity, FINGERPRINT, slot_bytes)
    assert not header.slots or header.end <= capacity
    assert header._replace(slots=header.slots + 1).end > capacity


@given(st.lists(st.integers(0, 20), unique=True))
def test_runs_keep_the_order_of_slots(slots: list[int]) -> None:
    found = runs(slots)
    assert [slot for first, count in found for slot in range(first, first + count)] == slots
    assert all(first + count != after for (first, count), (after, _) in zip(found, found[1:], strict=False))
