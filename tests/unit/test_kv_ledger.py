"""Who has which slots, and who goes, rule by rule; test_kv_ledger_model.py has all of them at once."""

from __future__ import annotations

import copy
import math

import pytest

from kv_store.block import Name
from kv_store.eviction import Ledger, Taken

ROOT = b"root"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def future(ledger: Ledger) -> list[Taken]:
    """How a ledger will go on: all evictions until nothing more can go, in their order."""
    ledger, taken = copy.deepcopy(ledger), list[Taken]()
    for i in range(100):
        stranger = b"stranger %d" % i
        ledger.hold(stranger, [stranger], math.inf)
        if (each := ledger.take(stranger, ROOT)) is None:
            break
        taken.append(each)
    return taken


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fill(ledger: Ledger, *chains: str) -> None:
    """Take a slot for each letter, each the child of the one before it in its string; those held are passed over."""
    for chain in chains:
        for parent, name in zip([ROOT, *spell(chain)], spell(chain), strict=False):
            if ledger.slots(name) is None:
                assert ledger.take(name, parent)


def spell(letters: str) -> list[Name]:
    return [letter.encode() for letter in letters]


def evicted(ledger: Ledger, need: int = 1) -> str | None:
    """The letters that go for a new block."""
    taken = ledger.take(b"new", ROOT, need)
    return taken and b"".join(taken.evicted).decode()


def test_a_chain_gets_the_lowest_free_slots_in_a_row() -> None:
    ledger = Ledger(6)
    fill(ledger, "abcdef")
    ledger.drop(b"b")
    fill(ledger, "axyz")
    assert [ledger.slots(name) for name in spell("axyz")] == [(0,), (1,), (2,), (3,)]
    assert ledger.take(b"new", ROOT, 2) == Taken((4, 5), ())
    assert ledger.free == 0


def test_slots_of_an_evicted_block_that_are_not_needed_are_free() -> None:
    ledger = Ledger(3)
    ledger.take(b"a", ROOT, 3)
    assert ledger.take(b"b", ROOT) == Taken((0,), (b"a",))
    assert ledger.free == 2


def test_no_more_go_than_are_needed_and_unused_ones_in_the_order_they_came() -> None:
    ledger = Ledger(4)
    fill(ledger, "a", "b", "c")
    assert evicted(ledger, 3) == "ab"


def test_used_blocks_go_last_and_the_one_used_longest_ago_first() -> None:
    ledger = Ledger(5)
    fill(ledger, "a", "b", "c", "d", "e")
    ledger.use([b"b"])
    ledger.use([b"a"])
    assert evicted(ledger, 5) == "cdeba"


def test_used_blocks_have_four_fifths_of_the_slots_and_the_oldest_is_the_youngest_on_probation_again() -> None:
    ledger = Ledger(10)
    fill(ledger, *"abcdefghij")
    for name in spell("abcdefgha"):
        ledger.use([name])
    ledger.drop(b"i")
    ledger.drop(b"j")
    fill(ledger, "y", "z")
    ledger.use([b"y"])  # too many: b goes back, behind z
    ledger.drop(b"h")
    fill(ledger, "x")
    assert evicted(ledger, 10) == "zbxcdefgay"


def test_a_large_block_takes_its_share_of_the_protected_slots() -> None:
    ledger = Ledger(10)
    for name, need in ((b"a", 4), (b"b", 4), (b"c", 2)):
        ledger.take(name, ROOT, need)
        ledger.use([name])
    assert ledger.drop(b"b")
    fill(ledger, "x")
    assert evicted(ledger, 10) == "axc"


def test_a_used_chain_goes_back_on_probation_from_its_end() -> None:
    ledger = Ledger(6)
    fill(ledger, "abc", "xy")
    ledger.use(spell("abc"))
    ledger.use(spell("xy"))  # too many: c goes back
    fill(ledger, "z")
    assert evicted(ledger, 6) == "czbayx"


def test_children_go_before_their_parents_whenever_those_were_used() -> None:
    ledger = Ledger(4)
    fill(ledger, "abc", "d")
    ledger.use([b"c"])
    assert evicted(ledger, 4) == "dcba"
    ledger = Ledger(10)
    fill(ledger, "abc", "d")
    ledger.use(spell("abc"))
    assert evicted(ledger, 10) == "dcba"


def test_a_parent_that_became_a_leaf_goes_in_its_turn() -> None:
    ledger = Ledger(4)
    fill(ledger, "ab", "c", "d")
    assert evicted(ledger, 3) == "bac"


def test_a_parent_with_another_child_stays() -> None:
    ledger = Ledger(4)
    fill(ledger, "ab", "ac", "d")
    assert evicted(ledger, 3) == "bca"


def test_a_new_block_does_not_cost_those_before_it() -> None:
    ledger = Ledger(3)
    fill(ledger, "ab", "x")
    assert ledger.take(b"c", b"b") == Taken((2,), (b"x",))
    assert ledger.take(b"d", b"c") is None
    assert sorted(ledger.names) == spell("abc")


def test_a_refusal_changes_nothing() -> None:
    ledger = Ledger(5)
    fill(ledger, "ab", "c", "d", "e")
    ledger.use([b"b"])
    ledger.hold(1, [b"c"], math.inf)
    before = copy.deepcopy(ledger)
    assert ledger.take(b"new", ROOT, 5) is None
    assert sorted(ledger.names) == spell("abcde")
    assert future(ledger) == future(before)
    assert evicted(ledger, 4) == "deba"


def test_more_slots_than_there_are_cannot_be_had() -> None:
    assert Ledger(0).take(b"a", ROOT) is None
    assert Ledger(2).take(b"a", ROOT, 3) is None


def test_a_pinned_block_never_goes_and_neither_do_those_before_it() -> None:
    ledger = Ledger(4)
    ledger.hold("document", [b"b"], math.inf)
    fill(ledger, "ab", "c", "d")
    assert ledger.take(b"new", ROOT, 3) is None
    assert evicted(ledger, 2) == "cd"


def test_what_is_needed_for_a_while_goes_only_when_nothing_else_is_left(clock: Clock) -> None:
    ledger = Ledger(4, clock)
    fill(ledger, "a", "b", "c", "d")
    ledger.use([b"c"])
    ledger.hold(1, [b"a"], clock.now + 20)
    ledger.hold(2, [b"b"], clock.now + 10)
    assert evicted(ledger, 4) == "dcba"


def test_time_that_has_passed_protects_no_more(clock: Clock) -> None:
    ledger = Ledger(3, clock)
    fill(ledger, "a", "b", "c")
    ledger.hold(1, [b"a"], clock.now + 10)
    clock.now += 9.9
    before = copy.deepcopy(ledger)
    assert evicted(ledger) == "b"
    clock.now += 0.1
    before._clock = clock
    assert evicted(before) == "a"


def test_the_strongest_of_several_holders_counts(clock: Clock) -> None:
    ledger = Ledger(2, clock)
    fill(ledger, "a", "b")
    ledger.hold(1, [b"a"], math.inf)
    ledger.hold(2, [b"a"], clock.now + 10)
    ledger.hold(3, [b"b"], clock.now + 99)
    assert evicted(ledger) == "b"
    ledger.drop(b"new")
    ledger.hold(1, [], 0)
    fill(ledger, "c")
    assert evicted(ledger) == "c"


def test_what_a_holder_says_replaces_what_it_said() -> None:
    ledger = Ledger(2)
    fill(ledger, "a", "b")
    ledger.hold(1, [b"a"], math.inf)
    ledger.hold(1, [b"b"], math.inf)
    assert evicted(ledger) == "a"


def test_a_block_dropped_and_taken_again_is_held_still() -> None:
    ledger = Ledger(2)
    fill(ledger, "a", "b")
    ledger.hold(1, [b"a"], math.inf)
    assert ledger.drop(b"a") == [b"a"]
    fill(ledger, "a")
    assert evicted(ledger, 2) is None
    assert evicted(ledger) == "b"


def test_a_block_is_dropped_with_all_behind_it() -> None:
    ledger = Ledger(6)
    fill(ledger, "abcd", "abx", "y")
    gone = ledger.drop(b"b")
    assert sorted(gone) == spell("bcdx")
    assert gone[-1] == b"b" and gone.index(b"d") < gone.index(b"c")
    assert ledger.free == 4
    assert (ledger.drop(b"b"), ledger.slots(b"b"), ledger.parent(b"b")) == ([], None, None)


def test_what_is_adopted_goes_oldest_first_children_before_parents() -> None:
    ledger = Ledger(6)
    for name, parent, slots in ((b"b", b"a", [5]), (b"c", ROOT, [1, 3]), (b"a", ROOT, [2]), (b"d", ROOT, [4])):
        ledger.adopt(name, parent, slots)
    assert ledger.slots(b"c") == (1, 3)
    assert ledger.take(b"e", ROOT) == Taken((0,), ())
    assert ledger.take(b"new", ROOT, 4) == Taken((1, 2, 3, 5), tuple(spell("bca")))


@pytest.mark.parametrize("slots", [[0], [0, 1], []])
def test_to_adopt_slots_that_are_taken_or_none_is_a_mistake(slots: list[int]) -> None:
    ledger = Ledger(2)
    fill(ledger, "a")
    with pytest.raises(AssertionError):
        ledger.adopt(b"b", ROOT, slots)


def test_to_take_what_is_held_is_a_mistake() -> None:
    ledger = Ledger(2)
    fill(ledger, "a")
    with pytest.raises(AssertionError):
        ledger.take(b"a", ROOT)


def entries(thing: object) -> int:
    """How many things are in containers in containers of a ledger, or of what has one."""
    if isinstance(thing, dict):
        thing = [*thing, *thing.values()]
    if type(thing).__module__.startswith("kv_store.") and not isinstance(thing, tuple):
        thing = [getattr(thing, name) for name in getattr(thing, "__slots__", None) or vars(thing)]
    return len(thing) + sum(map(entries, thing)) if isinstance(thing, list | tuple | set | frozenset) else 0


def test_no_container_grows_with_the_blocks_that_passed_through(clock: Clock) -> None:
    ledger, sizes = Ledger(500, clock), list[int]()
    for i in range(100_000):
        name = b"%d" % i
        assert ledger.take(name, b"%d" % (i - 1) if i % 50 else ROOT, 1 + i % 3 // 2)
        ledger.use([b"%d" % (i - 40), name])
        ledger.hold(i % 7, [name, b"%d" % (i - 300)], clock.now + i % 11)
        clock.now += 1
        if i % 31 == 0:
            ledger.drop(b"%d" % (i - 20))
        if i % 1000 == 999:
            sizes.append(entries(ledger))
    assert max(sizes[10:]) <= 1.2 * max(sizes[:10]) < 15_000


def test_no_container_grows_with_what_is_said_again_and_again_and_the_order_stays(clock: Clock) -> None:
    ledger, sizes = Ledger(20, clock), list[int]()
    fill(ledger, *"abcdefghijklmnopqrst")
    for _ in range(1000):
        ledger.hold(1, spell("abcdefghij"), clock.now + 10)
        sizes.append(entries(ledger))
    assert max(sizes[50:]) <= max(sizes[:50])
    assert evicted(ledger, 20) == "klmnopqrstabcdefghij"
