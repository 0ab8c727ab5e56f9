"""Blocks in host memory: what is read is what was written, what went is wiped, and nothing grows."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from threading import Thread
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kv_store.block import Block, Name
from kv_store.memory import MemoryTier
from kv_store.tier import Tier, TierStats
from tests.unit.kv_store.test_kv_eviction import entries

ROOT = b"root"
RAW = 0  # a form of blocks
SLOT = 8  # bytes
NAMES = [bytes([i]) for i in range(12)]
# A tree: the first two blocks follow the root, each other follows one of those before it.
PARENTS = {name: NAMES[(3 * i) // 4 - 1] if i > 1 else ROOT for i, name in enumerate(NAMES)}
ANY = st.sampled_from(NAMES)
DOCUMENTS = st.integers(1, 3)
SIZES = st.sampled_from((SLOT, SLOT, SLOT, 1, SLOT - 1, SLOT + 1, 3 * SLOT, 0))


class Content(NamedTuple):
    """A block that can be compared, and that nothing changes any more."""

    name: Name
    parent: Name
    document: int
    form: int
    approximate: bool
    data: bytes


def content(block: Block) -> Content:
    return Content(block.name, block.parent, block.document, block.form, block.approximate, block.data.tobytes())


def block(name: Name, parent: Name = ROOT, size: int = SLOT, document: int = 1, seed: int = 0) -> Block:
    data = np.random.default_rng([seed, *name]).integers(1, 256, size, np.uint8)  # none is 0, as wiped ones are
    return Block(name, parent, document, seed % 2, seed % 3 == 0, data)


def contents(tier: MemoryTier, names: Sequence[Name]) -> list[Content]:
    return [content(each) for each in tier.read(names)]


def chain_to(name: Name) -> list[Name]:
    return [*(chain_to(PARENTS[name]) if PARENTS[name] != ROOT else []), name]


def slots_of(size: int) -> int:
    return max(1, -(-size // SLOT))


class MemoryStates(RuleBasedStateMachine):
    """A tier beside a dict, which leaves out what was evicted, and when that may happen."""

    @initialize(slots=st.integers(0, 8), rest=st.integers(0, SLOT - 1))
    def start(self, slots: int, rest: int) -> None:
        self.slots = self.given = slots
        self.tier = MemoryTier(slots * SLOT + rest, SLOT)
        self.expected: dict[Name, Content] = {}
        self.pinned: list[Name] = []
        self.read = self.written = self.evicted = 0

    @rule(name=ANY, sizes=st.lists(SIZES, min_size=len(NAMES), max_size=len(NAMES)), document=DOCUMENTS)
    def write(self, name: Name, sizes: list[int], document: int) -> None:
        offered = list[Block]()

        def feed() -> Iterator[Block]:
            for each, size in zip(chain_to(name), sizes, strict=False):
                offered.append(block(each, PARENTS[each], size, document, seed=self.written))
                yield offered[-1]
                self.notice(offered.pop())  # it was skipped or saved

        self.tier.save(feed())
        if offered:
            assert offered[0].name not in self.there()
            assert self.there() == set(self.expected)
            assert slots_of(len(offered[0].data)) > self.free()

    def notice(self, new: Block) -> None:
        there, gone = self.there(), set(self.expected) - self.there()
        assert new.name in there
        if new.name in self.expected:
            assert not gone
            return
        assert not gone or slots_of(len(new.data)) > self.free()
        assert not gone & set(chain_to(new.name)) and gone.isdisjoint(self.pinned)
        self.expected = {name: each for name, each in self.expected.items() if name in there} | {
            new.name: content(new)
        }
        self.written += 1
        self.evicted += len(gone)

    @rule(name=ANY, end=st.integers(0, len(NAMES)))
    def read_a_chain(self, name: Name, end: int) -> None:
        """Up to the first that is gone, or up to where the reader stops."""
        expected = [self.expected[each] for each in self.beginning(name)][:end]
        assert [content(each) for each in islice(self.tier.read(chain_to(name)), end)] == expected
        self.read += len(expected)

    @rule(name=ANY)
    def look_up(self, name: Name) -> None:
        assert self.tier.lookup(chain_to(name)) == len(self.beginning(name))

    @rule(names=st.lists(ANY, max_size=6))
    def pin(self, names: list[Name]) -> None:
        self.tier.pin(names)
        self.pinned = names

    @rule(name=ANY)
    def touch(self, name: Name) -> None:
        self.tier.touch(chain_to(name))

    @rule(document=DOCUMENTS)
    def remove_document(self, document: int) -> None:
        self.tier.remove_document(document)
        brought = {name for name, each in self.expected.items() if each.document == document}
        self.expected = {name: each for name, each in self.expected.items() if not brought & self.ancestors(name)}

    @rule(parts=st.integers(1, 3))
    def share_memory(self, parts: int) -> None:
        """Another number of slots begins empty."""
        if (slots := self.given // parts) != self.slots:
            self.expected, self.pinned, self.slots = {}, [], slots
        self.tier.share_memory(parts)

    def ancestors(self, name: Name) -> set[Name]:
        """The block, and those before it up to the first that is gone."""
        return set(takewhile(self.expected.__contains__, reversed(chain_to(name))))

    def beginning(self, name: Name) -> list[Name]:
        return list(takewhile(self.expected.__contains__, chain_to(name)))

    def there(self) -> set[Name]:
        return {name for name in NAMES if self.tier.lookup([name])}

    def free(self) -> int:
        return self.slots - sum(slots_of(len(each.data)) for each in self.expected.values())

    @invariant()
    def has_the_blocks_of_the_dict(self) -> None:
        assert self.there() == set(self.expected)

    @invariant()
    def stats_are_right(self) -> None:
        used = (self.slots - self.free()) * SLOT
        counts = self.read, self.written, self.evicted
        assert self.tier.stats() == TierStats("memory", len(self.expected), used, self.slots * SLOT, *counts)

    @invariant()
    def no_other_bytes_are_left(self) -> None:
        left = np.sort(self.tier._slab[self.tier._slab > 0])
        assert left.tobytes() == bytes(sorted(b"".join(each.data for each in self.expected.values())))


MemoryStates.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestMemoryStates = MemoryStates.TestCase


def test_it_is_a_tier() -> None:
    tier: Tier = MemoryTier(2 * SLOT, SLOT)
    tier.save([block(b"a")])
    assert [content(each) for each in tier.read([b"a", b"b"])] == [content(block(b"a"))]


def test_a_tier_without_slots_stays_empty() -> None:
    tier = MemoryTier(SLOT - 1, SLOT)
    tier.save([block(b"a")])
    assert tier.lookup([b"a"]) == 0
    assert contents(tier, [b"a"]) == []
    assert tier.stats() == TierStats("memory")


def test_a_large_block_takes_several_slots_and_gives_them_back() -> None:
    tier = MemoryTier(4 * SLOT, SLOT)
    large = block(b"large", size=3 * SLOT - 1)
    tier.save([block(b"a"), large])
    assert contents(tier, [b"large"]) == [content(large)]
    assert tier.stats().bytes == 4 * SLOT
    tier.save([block(b"b")])
    assert tier.lookup([b"a"]) == 0
    tier.remove_document(1)
    assert tier.stats().bytes == 0


def test_saving_stops_at_the_first_block_without_room() -> None:
    tier = MemoryTier(2 * SLOT, SLOT)
    offered = iter([block(b"a"), block(b"b", b"a", 2 * SLOT), block(b"c", b"b"), block(b"d", b"c")])
    tier.save(offered)
    assert (tier.lookup([b"a"]), tier.lookup([b"b"])) == (1, 0)
    assert [each.name for each in offered] == [b"c", b"d"]


def test_a_block_that_is_there_is_not_saved_again() -> None:
    tier = MemoryTier(2 * SLOT, SLOT)
    first = block(b"a", seed=1)
    tier.save([first, block(b"a", seed=2), block(b"a", size=2 * SLOT)])
    assert contents(tier, [b"a"]) == [content(first)]
    assert tier.stats().written == 1


def test_later_saves_do_not_change_a_block_that_was_read() -> None:
    tier = MemoryTier(SLOT, SLOT)
    tier.save([block(b"a")])
    read = next(reading := tier.read([b"a", b"b"]))
    tier.save([block(b"b", seed=1)])
    assert content(read) == content(block(b"a"))
    assert [content(each) for each in reading] == [content(block(b"b", seed=1))]


def test_later_changes_of_the_source_do_not_change_the_block() -> None:
    tier, given = MemoryTier(SLOT, SLOT), block(b"a")
    tier.save([given])
    given.data[:] = 0
    assert contents(tier, [b"a"]) == [content(block(b"a"))]


def test_a_chain_that_was_read_stays_longer_and_shrinks_from_its_end() -> None:
    tier = MemoryTier(6 * SLOT, SLOT)
    tier.save([block(b"a"), block(b"b", b"a"), block(b"c", b"b"), block(b"x"), block(b"y", b"x")])
    contents(tier, [b"a", b"b", b"c"])
    contents(tier, [b"x", b"y"])
    tier.save([block(b"z"), block(b"v")])
    assert (tier.lookup([b"a", b"b", b"c"]), tier.lookup([b"z"])) == (2, 1), (
        "the end of too long a chain counts as unused"
    )
    tier.save([block(b"w", b"v")])
    assert (tier.lookup([b"a", b"b"]), tier.lookup([b"x", b"y"]), tier.lookup([b"z"])) == (2, 2, 0)


def test_pinned_and_used_blocks_stay() -> None:
    tier = MemoryTier(3 * SLOT, SLOT)
    tier.save([block(b"a"), block(b"b"), block(b"c")])
    tier.pin([b"a"])
    tier.touch([b"b"])
    tier.save([block(b"d")])
    assert [tier.lookup([name]) for name in (b"a", b"b", b"c", b"d")] == [1, 1, 0, 1]
    tier.save([block(b"e", b"d", 2 * SLOT)])
    assert tier.lookup([b"e"]) == 0, "its parent stays, and so does what is pinned"


def test_removing_a_document_removes_the_descendants_that_others_brought() -> None:
    tier = MemoryTier(4 * SLOT, SLOT)
    tier.save([block(b"a", document=2), block(b"b", b"a", document=1), block(b"c", b"b", document=2)])
    tier.pin([b"b"])
    tier.remove_document(1)
    assert [tier.lookup([name]) for name in (b"a", b"b", b"c")] == [1, 0, 0]
    assert tier.stats().evicted == 0


def test_a_closed_tier_frees_its_memory_and_stays_empty() -> None:
    tier = MemoryTier(2 * SLOT, SLOT)
    tier.save([block(b"a")])
    reading = tier.read([b"a", b"b"])
    next(reading)
    tier.close()
    tier.save([block(b"b", b"a")])
    assert list(reading) == contents(tier, [b"a"]) == []
    assert tier.stats() == TierStats("memory", read=1, written=1)
    assert tier._slab.nbytes == 0


def test_one_thread_reads_whole_blocks_while_another_writes() -> None:
    size, names, wrong = 1 << 20, [bytes([i]) for i in range(1, 7)], list[bytes]()
    tier = MemoryTier(4 * size, size)
    blocks = [Block(name, ROOT, 1, RAW, False, np.full(size, name[0], np.uint8)) for name in names]

    def write() -> None:
        for i in range(300):
            tier.save([blocks[i % len(blocks)]])
            if i % 50 == 0:
                tier.remove_document(1)

    writer = Thread(target=write)
    writer.start()
    while writer.is_alive():
        for name in names:
            wrong.extend(each.name for each in tier.read([name]) if (each.data != each.name[0]).any())
    writer.join()
    assert not wrong
    assert tier.stats().written > len(blocks)


def test_no_container_grows_with_the_blocks_that_pass_through() -> None:
    tier, sizes = MemoryTier(100 * SLOT, SLOT), list[int]()
    data = np.zeros(2 * SLOT, np.uint8)
    for i in range(20_000):
        name, parent = b"%d" % i, b"%d" % (i - 1) if i % 10 else ROOT
        tier.save([Block(name, parent, i % 50, RAW, False, data[: SLOT + i % 3])])
        assert len(list(tier.read([parent, name]))) == (2 if i % 10 else 0)
        if i % 10 == 9:
            tier.pin([name, parent] if i % 20 == 9 else [])
        if i % 100 == 99:
            tier.remove_document(i % 50)
        if i % 200 == 199:
            sizes.append(entries(tier))
    assert max(sizes[20:]) <= 1.02 * max(sizes[:20])


def pages_in_memory(tier: MemoryTier) -> int:
    """Return how many pages of a tier's slots are in memory."""
    start = -tier._slab.ctypes.data % mmap.PAGESIZE
    there = (ctypes.c_ubyte * (tier._slab.nbytes // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    size = ctypes.c_size_t(len(there) * mmap.PAGESIZE)
    assert libc.mincore(ctypes.c_void_p(tier._slab.ctypes.data + start), size, there) == 0
    return sum(page & 1 for page in there)


@pytest.mark.skipif(sys.platform != "linux", reason="which pages are in memory is asked as Linux tells it")
def test_slots_take_memory_once_they_are_written_whatever_was_freed_before() -> None:
    """The C library's allocator keeps memory up to the largest that was freed, and fills it with zeros."""
    for _ in range(4):
        np.ones(24 << 20, np.uint8)
        tier, other = (MemoryTier(8 << 20, 1 << 16) for _ in range(2))
        assert pages_in_memory(tier) == pages_in_memory(other) == 0
        tier.save([Block(b"a", ROOT, 1, RAW, False, np.ones(1 << 16, np.uint8))])
        assert 0 < pages_in_memory(tier) <= (1 << 16) // mmap.PAGESIZE
