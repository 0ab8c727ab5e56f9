"""What `efim-ls cache` reads from a block file, and repairs in it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kv_store.disk.block_file import BlockFile
from kv_store.disk.inspection import Usage, Verification, remove_document, usage_by_document, verify
from tests.unit.kv_blocks import SLOT, chain_of, document_of, names_of, read, same, tier_of

SIZES = (SLOT, 3 * SLOT - 5, SLOT, 1)
WHOLE = chain_of(0, 4, SIZES)  # in slots 0, 1 to 3, 4 and 5


@pytest.fixture
def block_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlockFile:
    tier = tier_of(tmp_path / "blocks.kv", 12)
    for seconds, blocks in ((1000, WHOLE[:2]), (3000, WHOLE[2:]), (2000, chain_of(1, 3))):
        monkeypatch.setattr(time, "time", lambda now=seconds: now)
        tier.save(blocks)
    return BlockFile.open(tmp_path / "blocks.kv")


def damage(block_file: BlockFile, at: int) -> None:
    with block_file.path.open("r+b") as file:
        file.seek(at)
        file.write(b"damage")


def test_usage_lists_documents_last_used_first(block_file: BlockFile) -> None:
    size = sum(len(block.data) for block in WHOLE)
    assert list(usage_by_document(block_file).items()) == [
        (document_of(0), Usage(4, size, 3000)),
        (document_of(1), Usage(3, 3 * SLOT, 2000)),
    ]


def test_a_whole_file_stays_as_it_is(block_file: BlockFile) -> None:
    before = block_file.path.read_bytes()
    assert verify(block_file, remove=True) == Verification(7, 0)
    assert block_file.path.read_bytes() == before


@pytest.mark.parametrize("slot, is_left", [(2, 1), (5, 3)])
def test_damaged_data_is_counted_and_removed_with_its_descendants(
    block_file: BlockFile, slot: int, is_left: int
) -> None:
    damage(block_file, block_file.header.slot(slot))
    before = block_file.path.read_bytes()
    assert verify(block_file, remove=False) == Verification(6, 1)
    assert block_file.path.read_bytes() == before
    assert verify(block_file, remove=True) == Verification(6, 1)
    assert verify(block_file, remove=True) == Verification(is_left + 3, 0)
    assert same(read(tier_of(block_file.path, 12), names_of(0, 4)), WHOLE[:is_left])


def test_damaged_records_are_counted_and_removed(block_file: BlockFile) -> None:
    damage(block_file, block_file.header.record(2))
    assert document_of(0) in usage_by_document(block_file)
    assert verify(block_file, remove=True) == Verification(6, 1)
    assert verify(block_file, remove=True) == Verification(6, 0)


def test_a_running_server_sees_what_was_removed(block_file: BlockFile) -> None:
    tier = tier_of(block_file.path, 12)
    damage(block_file, block_file.header.slot(5))
    assert tier.lookup(names_of(0, 4)) == 4
    verify(block_file, remove=True)
    assert tier.lookup(names_of(0, 4)) == 3


def test_nothing_is_left_of_a_removed_document(block_file: BlockFile) -> None:
    tier = tier_of(block_file.path, 12)
    assert tier.lookup(names_of(0, 4)) == 4
    remove_document(block_file, document_of(0))
    assert tier.lookup(names_of(0, 4)) == 0
    assert tier.lookup(names_of(1, 3)) == 3
    assert [*usage_by_document(block_file)] == [document_of(1)]
    content = block_file.path.read_bytes()
    assert not any(block.data.tobytes() in content for block in WHOLE[:3])
