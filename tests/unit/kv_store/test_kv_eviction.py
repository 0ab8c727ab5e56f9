"""Which block has which slots, and which one goes, rule by rule; test_kv_eviction_model.py has all rules at once."""

from __future__ import annotations

import copy

import pytest

from kv_store.block import Name
from kv_store.eviction import Allocation, SegmentedLru

ROOT = b"root"


def future(lru: SegmentedLru) -> list[Allocation]:
    """Return all evictions to come, in their order, until nothing more can be evicted."""
    lru, allocated = copy.deepcopy(lru), list[Allocation]()
    for i in range(100):
        stranger = b"stranger %d" % i
        lru.pin([*lru._pinned, stranger])
        if (each := lru.allocate(stranger, ROOT)) is None:
            break
        allocated.append(each)
    return allocated


def fill(lru: SegmentedLru, *chains: str) -> None:
    """Allocate a slot for each letter, each the child of the one before it in its string, unless it has one."""
    for chain in chains:
        for parent, name in zip([ROOT, *spell(chain)], spell(chain), strict=False):
            if lru.slots(name) is None:
                assert lru.allocate(name, parent)


def spell(letters: str) -> list[Name]:
    return [letter.encode() for letter in letters]


def evicted(lru: SegmentedLru, need: int = 1) -> str | None:
    """Return the letters that are evicted for a new block."""
    allocated = lru.allocate(b"new", ROOT, need)
    return allocated and b"".join(allocated.evicted).decode()


def test_a_chain_gets_the_lowest_free_slots_in_a_row() -> None:
    lru = SegmentedLru(6)
    fill(lru, "abcdef")
    lru.remove(b"b")
    fill(lru, "axyz")
    assert [lru.slots(name) for name in spell("axyz")] == [(0,), (1,), (2,), (3,)]
    assert lru.allocate(b"new", ROOT, 2) == Allocation((4, 5), ())
    assert lru.free == 0


def test_spare_slots_of_an_evicted_block_become_free() -> None:
    lru = SegmentedLru(3)
    lru.allocate(b"a", ROOT, 3)
    assert lru.allocate(b"b", ROOT) == Allocation((0,), (b"a",))
    assert lru.free == 2


def test_unused_blocks_go_in_the_order_they_came_and_no_more_than_needed() -> None:
    lru = SegmentedLru(4)
    fill(lru, "a", "b", "c")
    assert evicted(lru, 3) == "ab"


def test_used_blocks_go_last_in_the_order_of_their_use() -> None:
    lru = SegmentedLru(5)
    fill(lru, "a", "b", "c", "d", "e")
    lru.touch([b"b"])
    lru.touch([b"a"])
    assert evicted(lru, 5) == "cdeba"


def test_a_full_protected_segment_sends_its_oldest_block_back_to_probation() -> None:
    lru = SegmentedLru(10)
    fill(lru, *"abcdefghij")
    for name in spell("abcdefgha"):
        lru.touch([name])
    lru.remove(b"i")
    lru.remove(b"j")
    fill(lru, "y", "z")
    lru.touch([b"y"])  # too many: b goes back, behind z
    lru.remove(b"h")
    fill(lru, "x")
    assert evicted(lru, 10) == "zbxcdefgay"


def test_a_large_block_takes_its_share_of_the_protected_slots() -> None:
    lru = SegmentedLru(10)
    for name, need in ((b"a", 4), (b"b", 4), (b"c", 2)):
        lru.allocate(name, ROOT, need)
        lru.touch([name])
    assert lru.remove(b"b")
    fill(lru, "x")
    assert evicted(lru, 10) == "axc"


def test_a_used_chain_goes_back_on_probation_from_its_end() -> None:
    lru = SegmentedLru(6)
    fill(lru, "abc", "xy")
    lru.touch(spell("abc"))
    lru.touch(spell("xy"))  # too many: c goes back
    fill(lru, "z")
    assert evicted(lru, 6) == "czbayx"


def test_children_go_before_their_parents_whichever_was_used_later() -> None:
    lru = SegmentedLru(4)
    fill(lru, "abc", "d")
    lru.touch([b"c"])
    assert evicted(lru, 4) == "dcba"
    lru = SegmentedLru(10)
    fill(lru, "abc", "d")
    lru.touch(spell("abc"))
    assert evicted(lru, 10) == "dcba"


def test_a_parent_that_became_a_leaf_goes_in_its_turn() -> None:
    lru = SegmentedLru(4)
    fill(lru, "ab", "c", "d")
    assert evicted(lru, 3) == "bac"


def test_a_parent_with_another_child_stays() -> None:
    lru = SegmentedLru(4)
    fill(lru, "ab", "ac", "d")
    assert evicted(lru, 3) == "bca"


def test_a_new_block_never_evicts_its_ancestors() -> None:
    lru = SegmentedLru(3)
    fill(lru, "ab", "x")
    assert lru.allocate(b"c", b"b") == Allocation((2,), (b"x",))
    assert lru.allocate(b"d", b"c") is None
    assert sorted(lru.names) == spell("abc")


def test_a_refusal_changes_nothing() -> None:
    lru = SegmentedLru(5)
    fill(lru, "ab", "c", "d", "e")
    lru.touch([b"b"])
    lru.pin([b"c"])
    before = copy.deepcopy(lru)
    assert lru.allocate(b"new", ROOT, 5) is None
    assert sorted(lru.names) == spell("abcde")
    assert future(lru) == future(before)
    assert evicted(lru, 4) == "deba"


def test_more_slots_than_there_are_are_refused() -> None:
    assert SegmentedLru(0).allocate(b"a", ROOT) is None
    assert SegmentedLru(2).allocate(b"a", ROOT, 3) is None


def test_a_pinned_block_and_its_ancestors_never_go() -> None:
    lru = SegmentedLru(4)
    lru.pin([b"b"])
    fill(lru, "ab", "c", "d")
    assert lru.allocate(b"new", ROOT, 3) is None
    assert evicted(lru, 2) == "cd"


def test_new_pins_replace_the_old_ones() -> None:
    lru = SegmentedLru(2)
    fill(lru, "a", "b")
    lru.pin([b"a"])
    lru.pin([b"b"])
    assert evicted(lru) == "a"


def test_a_removed_block_that_comes_back_is_still_pinned() -> None:
    lru = SegmentedLru(2)
    fill(lru, "a", "b")
    lru.pin([b"a"])
    assert lru.remove(b"a") == [b"a"]
    fill(lru, "a")
    assert evicted(lru, 2) is None
    assert evicted(lru) == "b"


def test_a_block_is_removed_with_its_descendants() -> None:
    lru = SegmentedLru(6)
    fill(lru, "abcd", "abx", "y")
    gone = lru.remove(b"b")
    assert sorted(gone) == spell("bcdx")
    assert gone[-1] == b"b" and gone.index(b"d") < gone.index(b"c")
    assert lru.free == 4
    assert (lru.remove(b"b"), lru.slots(b"b"), lru.parent(b"b")) == ([], None, None)


def test_adopted_blocks_go_oldest_first_and_children_before_parents() -> None:
    lru = SegmentedLru(6)
    for name, parent, slots in ((b"b", b"a", [5]), (b"c", ROOT, [1, 3]), (b"a", ROOT, [2]), (b"d", ROOT, [4])):
        lru.adopt(name, parent, slots)
    assert lru.slots(b"c") == (1, 3)
    assert lru.allocate(b"e", ROOT) == Allocation((0,), ())
    assert lru.allocate(b"new", ROOT, 4) == Allocation((1, 2, 3, 5), tuple(spell("bca")))


@pytest.mark.parametrize("slots", [[0], [0, 1], []])
def test_adopting_no_slots_or_used_ones_is_a_mistake(slots: list[int]) -> None:
    lru = SegmentedLru(2)
    fill(lru, "a")
    with pytest.raises(AssertionError):
        lru.adopt(b"b", ROOT, slots)


def test_allocating_a_block_twice_is_a_mistake() -> None:
    lru = SegmentedLru(2)
    fill(lru, "a")
    with pytest.raises(AssertionError):
        lru.allocate(b"a", ROOT)


def entries(thing: object) -> int:
    """Count the things in all containers, however deep, of an LRU or of an object that has one."""
    if isinstance(thing, dict):
        thing = [*thing, *thing.values()]
    if type(thing).__module__.startswith("kv_store.") and not isinstance(thing, tuple):
        thing = [getattr(thing, name) for name in getattr(thing, "__slots__", None) or vars(thing)]
    return len(thing) + sum(map(entries, thing)) if isinstance(thing, list | tuple | set | frozenset) else 0


def test_no_container_grows_with_the_blocks_that_passed_through() -> None:
    lru, sizes = SegmentedLru(500), list[int]()
    for i in range(20_000):
        name = b"%d" % i
        assert lru.allocate(name, b"%d" % (i - 1) if i % 50 else ROOT, 1 + i % 3 // 2)
        lru.touch([b"%d" % (i - 40), name])
        lru.pin([name, b"%d" % (i - 300)])
        if i % 31 == 0:
            lru.remove(b"%d" % (i - 20))
        if i % 200 == 199:
            sizes.append(entries(lru))
    assert max(sizes[20:]) <= 1.03 * max(sizes[:20]) < 15_000


def test_no_container_grows_with_repeated_pins_and_the_order_stays() -> None:
    lru, sizes = SegmentedLru(20), list[int]()
    fill(lru, *"abcdefghijklmnopqrst")
    for _ in range(1000):
        lru.pin(spell("abcdefghij"))
        lru.pin([])
        sizes.append(entries(lru))
    assert max(sizes[50:]) <= max(sizes[:50])
    assert evicted(lru, 20) == "abcdefghijklmnopqrst"
