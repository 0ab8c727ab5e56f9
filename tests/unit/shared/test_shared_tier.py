"""The shared tier over a shelf in memory: against a model, and when the shelf fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from threading import Event

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kv_store.block import Block, Name
from kv_store.shared import shared_tier as tiers
from kv_store.shared.shared_tier import (
    ABSENT_FOR,
    DAMAGED,
    FIRST_REST,
    LONGEST_REST,
    PACE_HOLDS,
    PRESENT_FOR,
    Arrivals,
    Rest,
    SharedTier,
)
from kv_store.shared.shelf import ShelfError, ShelfFull
from kv_store.shared.wire import Sealer
from tests.unit.kv_blocks import SLOT, block_of, chain_of, document_of, names_of
from tests.unit.shared_shelves import KEY, MemoryShelf, shared_tier
from tests.waiting import HANG, Clock, eventually

CHAINS, LENGTH, PEOPLE = 4, 6, 2
NAME = Sealer(KEY, "", False).name


def content(block: Block) -> tuple[object, ...]:
    return block.name, block.parent, block.document, block.form, block.approximate, block.data.tobytes()


def read(tier: SharedTier, names: Sequence[Name]) -> list[tuple[object, ...]]:
    return [content(block) for block in tier.read(names)]


def expected(blocks: Sequence[Block]) -> list[tuple[object, ...]]:
    return [content(replace(block, document=0)) for block in blocks]


def read_all(tier: SharedTier, blocks: Sequence[Block]) -> None:
    names = [block.name for block in blocks]
    eventually(lambda: read(tier, names) == expected(blocks), "blocks do not come")


@pytest.fixture
def shelf() -> MemoryShelf:
    return MemoryShelf()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def tier(shelf: MemoryShelf, clock: Clock, said: list[str]) -> Iterator[SharedTier]:
    tier = shared_tier(shelf, clock, said)
    yield tier
    tier.close()
    assert shelf.is_closed


class Team(RuleBasedStateMachine):
    """Colleagues over one shelf: what one saved, the others read, up to the first that is missing."""

    @initialize(encrypt=st.booleans())
    def start(self, encrypt: bool) -> None:
        self.shelf, self.clock = MemoryShelf(), Clock()
        self.tiers = [shared_tier(self.shelf, self.clock, encrypt=encrypt) for _ in range(PEOPLE)]
        self.brought = [set[tuple[int, int]]() for _ in self.tiers]

    @rule(who=st.integers(0, PEOPLE - 1), chain=st.integers(0, CHAINS - 1), length=st.integers(1, LENGTH))
    def save(self, who: int, chain: int, length: int) -> None:
        self.clock.now += PRESENT_FOR
        there = {place for place in range(length) if NAME(block_of(chain, place).name) in self.shelf.values}
        self.tiers[who].save(chain_of(chain, length))
        self.brought[who] |= {(chain, place) for place in range(length) if place not in there}
        assert all(NAME(block_of(chain, place).name) in self.shelf.values for place in range(length))

    @rule(who=st.integers(0, PEOPLE - 1), chain=st.integers(0, CHAINS - 1), length=st.integers(1, LENGTH))
    def lookup_and_read(self, who: int, chain: int, length: int) -> None:
        self.clock.now += PRESENT_FOR
        blocks, tier = chain_of(chain, length), self.tiers[who]
        names = [block.name for block in blocks]
        there = 0
        while there < length and NAME(names[there]) in self.shelf.values:
            there += 1
        eventually(lambda: tier.lookup(names) == there, "it does not find out what is there")
        eventually(lambda: len(read(tier, names)) >= there, "blocks do not come")
        found = read(tier, names)
        assert found == expected(blocks)[: len(found)]

    @rule(chain=st.integers(0, CHAINS - 1), place=st.integers(0, LENGTH - 1))
    def evict(self, chain: int, place: int) -> None:
        self.shelf.values.pop(NAME(block_of(chain, place).name), None)

    @rule(who=st.integers(0, PEOPLE - 1), document=st.sampled_from(sorted({document_of(n) for n in range(CHAINS)})))
    def remove_document(self, who: int, document: int) -> None:
        assert self.tiers[who].remove_document(document)
        gone = {each for each in self.brought[who] if document_of(each[0]) == document}
        self.brought[who] -= gone
        for chain, place in gone:
            assert NAME(block_of(chain, place).name) not in self.shelf.values
            assert not read(self.tiers[who], [block_of(chain, place).name])

    def teardown(self) -> None:
        for tier in getattr(self, "tiers", ()):
            tier.close()


TestTeam = Team.TestCase
TestTeam.settings = settings(max_examples=40, stateful_step_count=20)


def test_what_is_there_is_not_written_again(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    other = shared_tier(shelf, clock)
    other.save(chain_of(1, 3))
    tier.save(chain_of(1, 5))
    tier.save(chain_of(1, 5))
    assert (other.stats().written, tier.stats().written, shelf.put) == (3, 2, 5)
    other.close()


def test_looking_up_fetches_nothing(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 5))
    assert tier.lookup(names_of(1, 5)) is None
    eventually(lambda: tier.lookup(names_of(1, 5)) == 5, "it does not find out what is there")
    assert shelf.gotten == 0


def test_what_is_being_fetched_is_not_known_yet(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 5))
    eventually(lambda: tier.lookup(names_of(1, 5)) == 5, "it does not find out what is there")
    shelf.answers.clear()
    assert read(tier, names_of(1, 5)) == [] and tier.lookup(names_of(1, 5)) is None
    shelf.answers.set()
    read_all(tier, chain_of(1, 5))
    assert tier.lookup(names_of(1, 5)) == 5 and tier.stats().read >= 5


def test_a_chain_that_is_wanted_now_replaces_one_that_was(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    shared_tier(shelf, clock).save([*chain_of(1, 40), *chain_of(2, 3)])
    shelf.answers.clear()
    assert read(tier, names_of(1, 40)) == []
    eventually(lambda: shelf.asked > 4, "it does not ask")
    assert read(tier, names_of(2, 3)) == []
    shelf.answers.set()
    read_all(tier, chain_of(2, 3))
    assert shelf.gotten < 40
    read_all(tier, chain_of(1, 40))


class LateShelf(MemoryShelf):
    """A shelf whose first answer to what is there comes late: it was `found`, and is told when `told` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.found, self.told = Event(), Event()

    def exists(self, names: Sequence[str]) -> list[bool]:
        answer, is_first = super().exists(names), not self.found.is_set()
        self.found.set()
        assert not is_first or self.told.wait(HANG)
        return answer


@pytest.mark.parametrize("is_there", [False, True])
def test_what_happened_since_a_question_outweighs_its_answer(clock: Clock, is_there: bool) -> None:
    shelf = LateShelf()
    tier = shared_tier(shelf, clock)
    if is_there:
        shelf.found.set()
        tier.save(chain_of(1, 1))
        clock.now += PRESENT_FOR
        shelf.found.clear()
    assert tier.lookup(names_of(1, 1)) is None and shelf.found.wait(HANG)
    if is_there:
        assert tier.remove_document(document_of(1))
    else:
        tier.save(chain_of(1, 1))
    shelf.told.set()
    eventually(lambda: tier.lookup(names_of(2, 1)) == 0, "it does not ask on")
    assert tier.lookup(names_of(1, 1)) == (0 if is_there else 1)
    tier.close()


def test_what_is_missing_is_asked_for_again_soon(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    eventually(lambda: tier.lookup(names_of(1, 2)) == 0, "it does not find out what is there")
    assert read(tier, names_of(1, 2)) == []
    asked = shelf.asked
    shared_tier(shelf, clock).save(chain_of(1, 2))
    before = shelf.asked
    assert tier.lookup(names_of(1, 2)) == 0 and shelf.asked == before > asked
    clock.now += ABSENT_FOR
    read_all(tier, chain_of(1, 2))


def test_arrivals_are_bounded(
    tier: SharedTier, shelf: MemoryShelf, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain that is larger than what fits comes in parts."""
    monkeypatch.setattr(tiers, "ARRIVED_BYTES", 4 * SLOT)
    shared_tier(shelf, clock).save(chain_of(1, 6))
    small, names = shared_tier(shelf, clock), names_of(1, 6)
    assert read(small, names) == []
    while names:  # reading the end of what has arrived asks for more
        eventually(lambda: small.lookup(names[-1:]) == 1, "what is not fetched is still said to come")  # noqa: B023
        found = [block.name for block in small.read(names)]
        assert found == names[:2]
        names = names[2:]
    small.close()


@pytest.mark.parametrize("value", [b"", b"EFKV", bytes(200)])
def test_a_foreign_value_is_missing_and_written_again(
    tier: SharedTier, shelf: MemoryShelf, clock: Clock, said: list[str], value: bytes
) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 4))
    third = NAME(names_of(1, 4)[2])
    shelf.values[third] = value
    eventually(lambda: read(tier, names_of(1, 4)) == expected(chain_of(1, 2)), "blocks do not come")
    eventually(lambda: third not in shelf.values, "a damaged block is not removed")  # in a batch behind these two
    eventually(lambda: tier.lookup(names_of(1, 4)) == 2, "it counts a damaged block")
    assert tier.stats().damaged == 1 and said == [DAMAGED]
    tier.save(chain_of(1, 4))
    clock.now += ABSENT_FOR
    read_all(tier, chain_of(1, 4))


def test_a_value_replayed_under_another_name_is_missing(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 2))
    first, second = map(NAME, names_of(1, 2))
    shelf.values[second] = shelf.values[first]
    eventually(lambda: read(tier, names_of(1, 2)) == expected(chain_of(1, 1)), "blocks do not come")
    eventually(lambda: tier.stats().damaged == 1, "it is not counted")


def test_a_shelf_that_fails_rests_and_is_told_of_once(
    tier: SharedTier, shelf: MemoryShelf, clock: Clock, said: list[str]
) -> None:
    tier.save(chain_of(1, 2))
    shelf.error = ShelfError("it is down; start it")
    assert tier.lookup(names_of(2, 2)) is None
    eventually(lambda: tier.lookup(names_of(2, 2)) == 0, "it does not rest")
    asked, pause = shelf.asked, FIRST_REST
    for _ in range(3):
        tier.save(chain_of(2, 2))
        assert read(tier, names_of(1, 2)) == [] and tier.lookup(names_of(1, 2)) == 0
        assert shelf.asked == asked, "it asks while it rests"
        clock.now += pause
        tier.save(chain_of(2, 2))
        assert shelf.asked == asked + 1, "it does not ask after its rest"
        asked, pause = shelf.asked, 2 * pause
    assert said == ["it is down; start it"]
    clock.now += pause
    shelf.error = None
    tier.save(chain_of(2, 2))
    read_all(tier, chain_of(1, 2))
    read_all(tier, chain_of(2, 2))


def test_what_has_come_is_read_while_the_shelf_rests(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 2))
    read_all(tier, chain_of(1, 2))
    shelf.error = ShelfError("it is down; start it")
    tier.save(chain_of(2, 1))
    assert tier.lookup(names_of(1, 3)) == 2
    read_all(tier, chain_of(1, 2))


def test_a_full_shelf_is_read_and_not_written_to(
    tier: SharedTier, shelf: MemoryShelf, clock: Clock, said: list[str]
) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 2))

    def refuse(values: object) -> int:
        shelf.asked += 1
        raise ShelfFull("it is full; clear it")

    written, shelf.put_many = shelf.put_many, refuse
    tier.save(chain_of(2, 2))
    asked = shelf.asked
    tier.save(chain_of(2, 2))
    assert shelf.asked == asked and said == ["it is full; clear it"]
    read_all(tier, chain_of(1, 2))
    clock.now += FIRST_REST
    shelf.put_many = written
    tier.save(chain_of(2, 2))
    assert tier.stats().written == 2


def test_a_document_is_removed_once_the_shelf_is_reached(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    tier.save(chain_of(1, 2))
    shelf.error = ShelfError("it is down; start it")
    assert not tier.remove_document(document_of(1)) and len(shelf.values) == 2
    shelf.error = None
    assert tier.remove_document(document_of(1)) and not shelf.values


def test_what_colleagues_brought_is_not_removed(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 2))
    tier.save(chain_of(1, 3))
    assert tier.remove_document(document_of(1)) and len(shelf.values) == 2


def test_a_mistake_in_reading_does_not_end_the_thread(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 2))
    working, shelf.exists = shelf.exists, lambda names: [][1]
    assert tier.lookup(names_of(1, 2)) is None
    eventually(lambda: tier.lookup(names_of(1, 2)) == 0, "it does not rest")
    shelf.exists = working
    clock.now += FIRST_REST
    read_all(tier, chain_of(1, 2))


def test_the_pace_of_the_link_is_forgotten_after_a_while(tier: SharedTier, shelf: MemoryShelf, clock: Clock) -> None:
    shared_tier(shelf, clock).save(chain_of(1, 2))
    getting = shelf.get_many

    def get_slowly(names: Sequence[str]) -> list[bytes | None]:
        clock.now += 3
        return getting(names)

    shelf.get_many = get_slowly
    read_all(tier, chain_of(1, 2))
    eventually(lambda: tier.stats().block_seconds == 1.5, "the pace is not measured")
    assert tier.stats().answer_seconds == 3
    clock.now += PACE_HOLDS
    assert tier.stats().block_seconds == tier.stats().answer_seconds == 0


def test_of_what_arrived_the_least_recently_used_goes() -> None:
    arrived, (first, second, third) = Arrivals(2 * SLOT), chain_of(1, 3)
    for block in (first, second, first):
        arrived.add(block)
    assert arrived.get(second.name) is second and arrived.get(first.name) is first
    arrived.add(third)
    assert [arrived.get(block.name) for block in (first, second, third)] == [first, None, third]
    arrived.remove(first.name)
    arrived.add(second)
    assert [arrived.get(block.name) for block in (first, second, third)] == [None, second, third]


def test_rests_grow_up_to_a_minute_and_end_with_a_success() -> None:
    clock = Clock()
    rest, pauses = Rest(clock), list[float]()
    for _ in range(9):
        rest.begin()
        rest.begin()  # of a request that was under way at the same time
        began = clock.now
        while not rest.is_over:
            clock.now += FIRST_REST
        pauses.append(clock.now - began)
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_REST, LONGEST_REST, LONGEST_REST]
    rest.begin()
    rest.end()
    assert rest.is_over
    rest.begin()
    clock.now += FIRST_REST
    assert rest.is_over
