"""Several servers, and two threads of each, use one file of blocks at the same time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import pytest

from kv_store.block import Block
from kv_store.disk.block_file import BlockFile
from kv_store.disk.disk_tier import DiskTier
from kv_store.disk.header import Header
from kv_store.disk.index import READ_BYTES
from tests.unit.kv_blocks import SLOT, chain_of, document_of, names_of, read, same, tier_of

CHAINS, LENGTH = 5, 6
SIZES = (SLOT, 3 * SLOT - 5, 1, SLOT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model" / "blocks.kv"


def test_another_server_reads_what_is_written_and_misses_what_is_evicted(path: Path) -> None:
    said = list[str]()
    one, other = tier_of(path, 8, said), tier_of(path, 8, said)
    one.save(chain_of(0, 6))
    found = other.read(names_of(0, 6))
    assert same([next(found)], chain_of(0, 1))
    other.save(chain_of(1, 3))
    assert same(read(one, names_of(1, 3)), chain_of(1, 3))
    assert one.lookup(names_of(0, 6)) == other.lookup(names_of(0, 6)) == 5
    one.save(chain_of(2, 8))
    assert other.lookup(names_of(2, 8)) == 8
    assert (other.stats().damaged, said) == (0, [])


def test_erased_slots_are_not_erased_again(path: Path) -> None:
    one, other = tier_of(path, 8), tier_of(path, 8)
    one.save(chain_of(0, 6))
    assert other.lookup(names_of(0, 6)) == 6
    one.remove_document(document_of(0))
    before = path.read_bytes()
    for server in (one, other):
        server.save(())
        assert path.read_bytes() == before


@pytest.mark.parametrize("writer", [0, 1], ids=["itself", "another"])
def test_slots_reused_while_they_are_read_are_missing_but_not_damaged(path: Path, writer: int) -> None:
    said = list[str]()
    servers = [tier_of(path, 2, said, READ_BYTES) for _ in range(2)]
    before, after = chain_of(0, 2, (READ_BYTES,)), chain_of(1, 2, (READ_BYTES,))
    servers[0].save(before)
    found = servers[0].read(names_of(0, 2))
    assert next(found).name == before[0].name

    def blocks() -> Iterator[Block]:
        yield from after
        assert list(found) == []

    servers[writer].save(blocks())
    assert [server.lookup(names_of(1, 2)) for server in servers] == [2, 2]
    assert (servers[0].stats().damaged, said) == (0, [])


def test_slots_reused_later_in_the_same_batch_are_not_damaged(path: Path) -> None:
    said = list[str]()
    tier = tier_of(path, 3, said, READ_BYTES)
    before, after = chain_of(0, 2, (READ_BYTES,)), chain_of(1, 3, (READ_BYTES,))
    tier.save(before)

    def blocks() -> Iterator[Block]:
        yield after[0]
        found = tier.read(names_of(0, 2))
        assert next(found).name == before[0].name
        yield from after[1:]
        assert list(found) == []

    tier.save(blocks())
    assert (tier.lookup(names_of(1, 3)), tier.stats().damaged, said) == (3, 0, [])


@pytest.mark.parametrize("writer", [0, 1], ids=["itself", "another"])
def test_slots_reused_and_restored_meanwhile_are_not_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch, writer: int
) -> None:
    said, preadv = list[str](), os.preadv
    servers = [tier_of(path, 1, said) for _ in range(2)]
    servers[0].save(chain_of(0, 1))

    def torn(file: int, buffers: Sequence[memoryview], at: int) -> int:
        monkeypatch.setattr(os, "preadv", preadv)
        servers[writer].save(chain_of(1, 1))
        count = preadv(file, buffers, at)
        servers[writer].save(chain_of(0, 1))
        return count

    monkeypatch.setattr(os, "preadv", torn)
    assert read(servers[0], names_of(0, 1)) == []
    assert same(read(servers[0], names_of(0, 1)), chain_of(0, 1))
    assert (servers[0].stats().damaged, said) == (0, [])


def test_a_block_is_missing_while_it_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, pwrite, found = list[str](), os.pwrite, set[int]()
    tier = tier_of(path, 7, said)
    whole = [chain_of(chain, LENGTH, (SLOT, 3 * SLOT)) for chain in range(2)]

    def between(file: int, data: memoryview, at: int) -> int:
        for blocks in whole:
            names = [block.name for block in blocks]
            assert same(read(tier, names), blocks[: (count := len(read(tier, names)))])
            found.add(count)
        return pwrite(file, data, at)

    monkeypatch.setattr(os, "pwrite", between)
    for blocks in whole * 2:
        tier.save(blocks)
    assert found == {0, 1, 2, 3}
    assert (tier.stats().damaged, said) == (0, [])


def test_blocks_that_another_server_used_stay_with_their_descendants(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tier_of(path, 8), tier_of(path, 8)
    one.save(chain_of(0, 4))
    assert other.lookup(names_of(0, 4)) == 4
    monkeypatch.setattr(time, "time", lambda: 1e9)
    list(one.read(names_of(0, 2)))
    one.save([])
    assert same(read(other, names_of(0, 4)), chain_of(0, 4))


def test_a_thread_reads_and_pins_while_another_writes(path: Path) -> None:
    whole = [chain_of(chain, LENGTH, SIZES) for chain in range(CHAINS)]
    said, found, enough = list[str](), 0, threading.Event()
    tier = tier_of(path, 20, said)

    def write() -> None:
        for blocks in cycle(whole):
            tier.save(blocks)
            if enough.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive() and found < 2000:
        for chain in range(CHAINS):
            blocks = read(tier, names_of(chain, LENGTH))
            assert same(blocks, whole[chain][: len(blocks)])
            tier.pin(names_of(chain, chain % 3))
            found += len(blocks)
    enough.set()
    writer.join()
    assert found >= 2000
    assert (tier.stats().damaged, said) == (0, [])


@pytest.mark.parametrize("another", ["after a restart", "at the same time"])
def test_blocks_used_last_stay_with_another_server(path: Path, monkeypatch: pytest.MonkeyPatch, another: str) -> None:
    one, other = tier_of(path, 8), tier_of(path, 8)
    for chain in range(2):
        monkeypatch.setattr(time, "time", lambda now=chain: 1000 * now)
        one.save(chain_of(chain, 4))
    assert other.lookup(names_of(0, 4)) == 4
    monkeypatch.setattr(time, "time", lambda: 3000)
    list(one.read(names_of(0, 4)))
    one.save([])
    if another == "after a restart":
        other = tier_of(path, 8)
    other.save(chain_of(2, 4))
    assert [other.lookup(names_of(chain, 4)) for chain in range(3)] == [4, 0, 4]


def test_a_file_that_another_server_creates_first_is_shared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create, faster = BlockFile.create, list[DiskTier]()

    def late(path: Path, header: Header) -> BlockFile:
        monkeypatch.setattr(BlockFile, "create", create)
        faster.append(tier_of(path, 8))
        return create(path, header)

    monkeypatch.setattr(BlockFile, "create", late)
    said = list[str]()
    slower = tier_of(path, 8, said)
    faster[0].save(blocks := chain_of(1, 3))
    assert same(read(slower, names_of(1, 3)), blocks)
    assert said == []
    slower.close()
    faster[0].close()
