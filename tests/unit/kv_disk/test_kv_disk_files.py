"""Block files that vanish, are replaced or cannot be used: a server starts a new one and says why once."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kv_store.block import Block
from kv_store.disk.block_file import BlockFile
from kv_store.disk.header import Header
from kv_store.disk.messages import VANISHED
from tests.unit.kv_blocks import FINGERPRINT, SLOT, capacity_of, chain_of, names_of, read, same, tier_of

SIZES = (SLOT, 3 * SLOT - 5, 1, SLOT)
WHOLE, NAMES = chain_of(0, 8, SIZES), names_of(0, 8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model" / "blocks.kv"


def unlink(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def truncate(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("lose", [unlink, remove_folder, truncate])
def test_a_new_file_in_place_of_a_vanished_one_has_the_same_pins(path: Path, lose: Callable[[Path], None]) -> None:
    said = list[str]()
    tier = tier_of(path, 8, said)
    tier.pin(names_of(0, 4))
    for _ in range(2):
        lose(path)
        tier.save(chain_of(0, 4))
        tier.save(chain_of(1, 8))
        assert [tier.lookup(names_of(chain, 8)) for chain in (0, 1)] == [4, 4]
    assert said[0] == VANISHED
    assert len(said) == 1 + (lose is truncate), "and why the existing one cannot be used"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_new_file_in_place_of_a_vanished_one_is_locked(path: Path) -> None:
    tier = tier_of(path, 8)
    unlink(path)

    def blocks() -> Iterator[Block]:
        with path.open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield from chain_of(0, 4)

    tier.save(blocks())
    assert tier.lookup(names_of(0, 4)) == 4


def test_nothing_is_written_until_a_vanished_file_can_be_replaced(path: Path) -> None:
    said = list[str]()
    tier = tier_of(path, 20, said)
    tier.save(WHOLE)
    remove_folder(path)
    path.parent.write_text("not a folder")
    for _ in range(2):
        tier.save(chain_of(1, 3))
        assert tier.lookup(names_of(1, 3)) == 0
    assert read(tier, NAMES) == [], "what was removed is not used any more"
    assert len(said) == 2
    assert "cannot be written" in said[1]
    path.parent.unlink()
    tier.save(chain_of(1, 3))
    assert tier.lookup(names_of(1, 3)) == 3


def test_a_file_that_another_server_made_meanwhile_is_used_as_it_is(path: Path) -> None:
    said = list[str]()
    tier = tier_of(path, 40, said)
    unlink(path)
    tier_of(path, 9, slot_bytes=3 * SLOT).save(WHOLE)
    tier.save(chain_of(1, 1))
    assert same(read(tier, NAMES), WHOLE)
    assert (tier.lookup(names_of(1, 1)), tier.stats().capacity_bytes) == (1, 27 * SLOT)
    assert said == [VANISHED]


def test_a_larger_file_of_another_server_is_left_alone(path: Path) -> None:
    said = list[str]()
    tier = tier_of(path, 5, said)
    unlink(path)
    other = tier_of(path, 20)
    other.save(WHOLE)
    for _ in range(2):
        tier.save(chain_of(1, 1))
    assert tier.lookup(names_of(1, 1)) == 0
    assert same(read(other, NAMES), WHOLE)
    assert [VANISHED, "another setting" in said[-1]] == [said[0], True] and len(said) == 2


def other_version(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(8)
        file.write(b"\2")


def other_model(path: Path) -> None:
    BlockFile.replace(path, Header(bytes(32), 20, SLOT))


def other_size(path: Path) -> None:
    BlockFile.replace(path, Header(FINGERPRINT, 21, SLOT))


def other_kind(path: Path) -> None:
    path.write_text("some text")


@pytest.mark.parametrize(
    "change, reason",
    [
        (other_version, "another version"),
        (other_model, "another model's"),
        (other_size, "another setting"),
        (other_kind, "another kind"),
        (truncate, "another kind"),
    ],
)
def test_a_file_that_cannot_be_used_is_replaced(path: Path, change: Callable[[Path], None], reason: str) -> None:
    tier_of(path, 20).save(WHOLE)
    change(path)
    said = list[str]()
    tier = tier_of(path, 20, said)
    assert tier.lookup(NAMES) == 0
    tier.save(WHOLE)
    assert same(read(tier_of(path, 20, said), NAMES), WHOLE)
    assert len(said) == 1
    assert reason in said[0]


def test_a_full_sized_file_with_slots_of_another_size_is_used(path: Path) -> None:
    slots = Header.within(capacity_of(20), FINGERPRINT, 3 * SLOT).slots
    tier_of(path, slots, slot_bytes=3 * SLOT).save(WHOLE)
    said = list[str]()
    tier = tier_of(path, 20, said)
    assert same(read(tier, NAMES[: tier.lookup(NAMES)]), WHOLE[: tier.lookup(NAMES)])
    assert (tier.stats().capacity_bytes, said) == (slots * 3 * SLOT, [])
