"""The disk tier gives back what was written, or nothing; several servers share its file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kv_store.block import Block
from kv_store.disk.index import READ_BYTES
from kv_store.disk.messages import VANISHED
from tests.unit.kv_blocks import (
    DOCUMENTS,
    SLOT,
    block_of,
    capacity_of,
    chain_of,
    document_of,
    names_of,
    read,
    same,
    tier_of,
)

CHAINS, LENGTH = 5, 6
SIZES = (SLOT, 3 * SLOT - 5, 1, SLOT)
WHOLE = {chain: chain_of(chain, LENGTH, SIZES) for chain in range(CHAINS)}
NAMES = {chain: names_of(chain, LENGTH) for chain in range(CHAINS)}
SERVERS = st.integers(0, 1)
SOME = st.integers(0, CHAINS - 1)


class DiskStates(RuleBasedStateMachine):
    """Two servers on one file, which is too small for all; what is read is what was written."""

    @initialize(slots=st.integers(1, 30))
    def start(self, slots: int) -> None:
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "model" / "blocks.kv"
        self.slots, self.said = slots, list[str]()
        self.servers = [tier_of(self.path, slots, self.said) for _ in range(2)]

    @rule(server=SERVERS, chain=SOME, length=st.integers(0, LENGTH))
    def write(self, server: int, chain: int, length: int) -> None:
        before = [each.lookup(NAMES[chain]) for each in self.servers]
        self.servers[server].save(iter(WHOLE[chain][:length]))
        assert self.servers[server].lookup(NAMES[chain]) >= before[server], "parents make no room for their children"

    @rule(server=SERVERS, chain=SOME, length=st.integers(0, LENGTH))
    def read(self, server: int, chain: int, length: int) -> None:
        found = self.servers[server].lookup(NAMES[chain][:length])
        assert same(read(self.servers[server], NAMES[chain][:length]), WHOLE[chain][:found])

    @rule(server=SERVERS, chain=SOME, length=st.integers(0, LENGTH))
    def pin(self, server: int, chain: int, length: int) -> None:
        self.servers[server].pin(NAMES[chain][:length])

    @rule(server=SERVERS, chain=SOME, length=st.integers(0, LENGTH))
    def touch(self, server: int, chain: int, length: int) -> None:
        self.servers[server].touch(NAMES[chain][:length])

    @rule(server=SERVERS, document=st.integers(1, DOCUMENTS))
    def remove_document(self, server: int, document: int) -> None:
        self.servers[server].remove_document(document)
        content = self.path.read_bytes()
        for chain in range(CHAINS):
            if document_of(chain) == document:
                assert self.servers[server].lookup(NAMES[chain]) == 0
                assert not any(block.data.tobytes() in content for block in WHOLE[chain] if len(block.data) > 8)

    @rule(server=SERVERS)
    def reopen(self, server: int) -> None:
        before = [self.servers[server].lookup(names) for names in NAMES.values()]
        self.servers[server].close()
        self.servers[server] = tier_of(self.path, self.slots, self.said)
        assert [self.servers[server].lookup(names) for names in NAMES.values()] == before

    @rule()
    def lose_the_file(self) -> None:
        self.path.unlink()
        for server in self.servers:
            server.save(())
        assert all(server.lookup(names) == 0 for server in self.servers for names in NAMES.values())
        self.said.clear()

    @invariant()
    def all_know_the_same(self) -> None:
        for names in NAMES.values():
            assert self.servers[0].lookup(names) == self.servers[1].lookup(names)

    @invariant()
    def the_file_is_never_larger_than_allowed(self) -> None:
        assert self.path.stat().st_size <= capacity_of(self.slots)

    @invariant()
    def only_a_lost_file_is_warned_about(self) -> None:
        assert {*self.said} <= {VANISHED}

    def teardown(self) -> None:
        self.folder.cleanup()


DiskStates.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestDiskStates = DiskStates.TestCase


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model" / "blocks.kv"


def test_all_that_fits_is_there_after_a_restart(path: Path) -> None:
    slots = CHAINS * sum(-(-len(block.data) // SLOT) for block in WHOLE[0])
    tier_of(path, slots).save(block for whole in WHOLE.values() for block in whole)
    tier = tier_of(path, slots)
    for chain, whole in WHOLE.items():
        assert same(read(tier, NAMES[chain]), whole)
    assert (tier.stats().blocks, tier.stats().bytes) == (CHAINS * LENGTH, slots * SLOT)
    assert path.stat().st_size == capacity_of(slots)


def test_blocks_that_are_there_are_not_written_again(path: Path) -> None:
    tier = tier_of(path, 10)
    tier.save(chain_of(0, 3))
    tier.save(chain_of(0, 5))
    assert (tier.stats().written, tier.stats().blocks, tier.stats().evicted) == (5, 5, 0)


def test_a_block_of_more_than_255_parts_is_refused_with_its_descendants(path: Path) -> None:
    tier = tier_of(path, 600, slot_bytes=8)
    tier.save([block_of(0, 0, 8), block_of(0, 1, 8 * 255), block_of(0, 2, 8 * 255 + 1), block_of(0, 3, 8)])
    assert tier.lookup(names_of(0, 4)) == 2
    assert tier.lookup(names_of(0, 4)[3:]) == 0


def test_a_block_is_readable_only_once_it_is_written(path: Path) -> None:
    tier = tier_of(path, 8)

    def blocks() -> Iterator[Block]:
        for place, block in enumerate(chain_of(0, 8)):
            assert len(read(tier, names_of(0, 8))) == place
            yield block

    tier.save(blocks())
    assert tier.lookup(names_of(0, 8)) == 8


def test_pinned_blocks_make_no_room(path: Path) -> None:
    tier = tier_of(path, 6)
    tier.pin(names_of(0, 4))
    for chain in range(3):
        tier.save(chain_of(chain, 4))
    assert [tier.lookup(names_of(chain, 4)) for chain in range(3)] == [4, 0, 2]


@pytest.mark.parametrize("use", ["read", "write", "touch"])
def test_blocks_used_last_stay(path: Path, use: str) -> None:
    tier = tier_of(path, 8)
    for chain in range(2):
        tier.save(chain_of(chain, 4))
    if use == "read":
        list(tier.read(names_of(0, 4)))
    elif use == "touch":
        tier.touch(names_of(0, 4))
    else:
        tier.save(chain_of(0, 4))
    tier.save(chain_of(2, 4))
    assert [tier.lookup(names_of(chain, 4)) for chain in range(3)] == [4, 0, 4]


def test_a_second_use_within_a_minute_is_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, contents = tier_of(path, 4), list[bytes]()
    for seconds in (1000, 1059, 1060, 1119):
        monkeypatch.setattr(time, "time", lambda now=seconds: now)
        list(tier.read(names_of(0, 4)))
        tier.save(chain_of(0, 4))
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] != contents[2] == contents[3]


def test_slots_of_an_evicted_block_that_are_not_reused_are_wiped(path: Path) -> None:
    tier, other = tier_of(path, 4), tier_of(path, 4)
    tier.save(chain_of(0, 1, (3 * SLOT,)))
    tier.save(last := chain_of(1, 1))
    tier.remove_document(document_of(0))
    for chain in (2, 3):
        tier.save(chain_of(chain, 1, (3 * SLOT,)))
    assert tier.stats().evicted == 2
    assert other.lookup(names_of(1, 1)) == 0
    assert last[0].data.tobytes() not in path.read_bytes()


@pytest.mark.parametrize(
    "slot_bytes, written, calls",
    [
        (SLOT, [chain_of(0, 8)], 1),
        (SLOT, [chain_of(0, 4), chain_of(1, 3), chain_of(0, 8)], 2),
        (SLOT, [chain_of(0, 8, (3 * SLOT - 5, SLOT))], 1),
        (READ_BYTES // 4, [chain_of(0, 8, (READ_BYTES // 4,))], 2),
        (READ_BYTES, [chain_of(0, 2, (READ_BYTES + 1, 1))], 2),
    ],
    ids=["all in a row", "in two places", "blocks of several slots", "as much as the buffer has", "larger than that"],
)
def test_adjacent_slots_are_read_together(
    path: Path, monkeypatch: pytest.MonkeyPatch, slot_bytes: int, written: list[list[Block]], calls: int
) -> None:
    tier = tier_of(path, 20, slot_bytes=slot_bytes)
    for blocks in written:
        tier.save(blocks)
    preadv, starts = os.preadv, list[int]()

    def noting(file: int, buffers: Sequence[memoryview], at: int) -> int:
        starts.append(at)
        return preadv(file, buffers, at)

    monkeypatch.setattr(os, "preadv", noting)
    assert same(read(tier, [block.name for block in written[-1]]), written[-1])
    assert len(starts) == calls


def test_twenty_thousand_blocks_take_no_more_memory_than_a_few(path: Path) -> None:
    slots, length, objects = 500, 100, dict[int, int]()
    tier = tier_of(path, slots, slot_bytes=16)
    for chain in range(200):
        tier.save(chain_of(chain, length, (16,)))
        assert sum(1 for _ in tier.read(names_of(chain, length))) == length
        if chain in (
            99,
            199,
        ):  # CPython shares small integers: the first slots' take no memory
            objects[chain] = sys.getallocatedblocks()
    assert tier.stats().written == tier.stats().read == 20_000
    assert objects[199] < objects[99] + 2 * slots  # an object that each block left behind would be 10,000
    assert path.stat().st_size <= capacity_of(slots, 16)
