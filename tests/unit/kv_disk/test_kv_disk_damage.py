"""Whatever bytes of the file are changed or missing, what is read is what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kv_store.disk.block_file import COUNT, COUNT_AT
from kv_store.disk.disk_tier import DiskTier
from kv_store.disk.header import PAGE, Header
from tests.unit.kv_blocks import FINGERPRINT, SLOT, capacity_of, chain_of, document_of, names_of, read, same, tier_of

SLOTS, LENGTH = 8, 4
SIZES = (SLOT, 3 * SLOT - 5, 1, SLOT)
Damage = Callable[[bytes], Iterator[bytes]]
HEADER = Header(FINGERPRINT, SLOTS, SLOT)
READ = [*range(COUNT_AT + COUNT.size), *range(PAGE, HEADER.record(SLOTS)), *range(HEADER.data, HEADER.end)]
NEVER_READ = sorted({*range(HEADER.end)}.difference(READ))
WHOLE, NAMES = chain_of(0, LENGTH, SIZES), names_of(0, LENGTH)


def goes_on(tier: DiskTier, path: Path, said: list[str]) -> None:
    """Check that nothing wrong is read, that the user hears of what is missing, and that it can be written again."""
    found = read(tier, NAMES)
    assert same(found, WHOLE[: len(found)])
    tier.save(WHOLE)
    assert same(read(tier, NAMES), WHOLE)
    assert len(found) == LENGTH or said
    assert path.stat().st_size <= capacity_of(SLOTS)


def flipped(content: bytes) -> Iterator[bytes]:
    """With each byte in turn another one; those that are never read all at once."""
    for places in [*([at] for at in READ), NEVER_READ]:
        changed = bytearray(content)
        for at in places:
            changed[at] ^= 0xFF
        yield bytes(changed)


def cut(content: bytes) -> Iterator[bytes]:
    """Cut off behind each byte in turn, among those that are never read behind some."""
    return (content[:length] for length in [*READ, *NEVER_READ[::64]])


def in_place(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(len(content))
        file.write(content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "blocks.kv"
    tier = tier_of(path, SLOTS)
    tier.save([*WHOLE, *chain_of(1, 2)])
    tier.remove_document(document_of(1))  # so that the file is as long as it may be
    assert path.stat().st_size == HEADER.end
    return path


@pytest.mark.parametrize("damage", [flipped, cut])
def test_a_file_that_was_damaged_before_it_is_opened(path: Path, damage: Damage) -> None:
    for content in damage(path.read_bytes()):
        said = list[str]()
        in_place(path, content)
        goes_on(tier_of(path, SLOTS, said), path, said)


@pytest.mark.parametrize("damage", [flipped, cut])
def test_a_file_that_is_damaged_while_it_is_open(path: Path, damage: Damage) -> None:
    whole = path.read_bytes()
    for content in damage(whole):
        said = list[str]()
        in_place(path, whole)
        tier = tier_of(path, SLOTS, said)
        in_place(path, content)
        goes_on(tier, path, said)
