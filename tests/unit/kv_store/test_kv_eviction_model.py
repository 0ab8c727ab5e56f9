"""Segmented LRU beside plain lists that are searched from end to end."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kv_store.block import Name
from kv_store.eviction import Allocation, SegmentedLru
from tests.unit.kv_store.test_kv_eviction import ROOT, future

NAMES = [bytes([i]) for i in range(16)]
# A tree: the first two blocks follow the root, each other follows one of those before it.
PARENTS = {name: NAMES[(3 * i) // 4 - 1] if i > 1 else ROOT for i, name in enumerate(NAMES)}
ANY = st.sampled_from(NAMES)


def chain_to(name: Name) -> list[Name]:
    return [*(chain_to(PARENTS[name]) if PARENTS[name] != ROOT else []), name]


class SlowLru:
    """What the LRU should do, by the rules, with plain lists that are searched from end to end."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots: dict[Name, list[int]] = {}
        self.parents: dict[Name, Name] = {}
        self.probation: list[Name] = []  # oldest first
        self.protected: list[Name] = []
        self.pinned: list[Name] = []

    def free(self) -> list[int]:
        used = {slot for slots in self.slots.values() for slot in slots}
        return [slot for slot in range(self.size) if slot not in used]

    def leaves(self, but: Name) -> list[Name]:
        """Those that could go for a child of `but`, in the order of segmented LRU."""
        parents = {*self.parents.values(), but}
        return [name for name in self.probation + self.protected if name not in {*parents, *self.pinned}]

    def add(self, name: Name, parent: Name, slots: Sequence[int]) -> None:
        self.slots[name], self.parents[name] = list(slots), parent
        self.probation.append(name)

    def discard(self, name: Name) -> None:
        del self.slots[name], self.parents[name]
        (self.probation if name in self.probation else self.protected).remove(name)

    def allocate(self, name: Name, parent: Name, need: int) -> Allocation | None:
        before = copy.deepcopy(vars(self))
        evicted = list[Name]()
        while len(self.free()) < need:
            if not (leaves := self.leaves(parent)):
                vars(self).update(before)
                return None
            evicted.append(leaves[0])
            self.discard(leaves[0])
        self.add(name, parent, slots := self.free()[:need])
        return Allocation(tuple(slots), tuple(evicted))

    def touch(self, names: Sequence[Name]) -> None:
        for name in reversed([name for name in names if name in self.slots]):
            (self.probation if name in self.probation else self.protected).remove(name)
            self.protected.append(name)
        while sum(len(self.slots[name]) for name in self.protected) > 0.8 * self.size:
            self.probation.append(self.protected.pop(0))

    def remove(self, name: Name) -> set[Name]:
        if name not in self.slots:
            return set()
        gone = {name}.union(*(self.remove(child) for child, parent in list(self.parents.items()) if parent == name))
        self.discard(name)
        return gone


class LruStates(RuleBasedStateMachine):
    """The LRU beside plain lists, and what must always be true."""

    @initialize(size=st.sampled_from((0, 1, 4, 5, 8, 10, 12)))
    def start(self, size: int) -> None:
        self.lru, self.slow = SegmentedLru(size), SlowLru(size)

    @rule(name=ANY, needs=st.lists(st.sampled_from((1, 1, 1, 2, 4)), min_size=len(NAMES), max_size=len(NAMES)))
    def write(self, name: Name, needs: list[int]) -> None:
        """A chain, up to the first for which there is no room."""
        for each, need in zip(chain_to(name), needs, strict=False):
            if self.lru.slots(each) is None:
                self.allocate(each, need)
            if self.lru.slots(each) is None:
                break

    @rule(name=ANY, need=st.integers(1, 4))
    def allocate_behind_anything(self, name: Name, need: int) -> None:
        if self.lru.slots(name) is None:
            self.allocate(name, need)

    def allocate(self, name: Name, need: int) -> None:
        before, children = copy.deepcopy(self.lru), self.children()
        allocation = self.lru.allocate(name, PARENTS[name], need)
        if allocation is None:
            assert future(self.lru) == future(before)
        else:
            self.check_evicted(name, allocation.evicted, children)
        assert allocation == self.slow.allocate(name, PARENTS[name], need)

    def check_evicted(self, name: Name, evicted: Sequence[Name], children: dict[Name, set[Name]]) -> None:
        stay, ancestor = list(children), PARENTS[name]
        while ancestor in children:
            assert ancestor not in evicted
            ancestor = PARENTS[ancestor]
        for each in evicted:
            leaves = [leaf for leaf in stay if not children[leaf] & set(stay) and leaf != PARENTS[name]]
            assert each in leaves, "children go before their parents"
            assert each not in self.slow.pinned, "pinned blocks stay"
            stay.remove(each)

    @rule(name=ANY, sizes=st.lists(st.integers(1, 3), max_size=4), random=st.randoms(use_true_random=False))
    def adopt(self, name: Name, sizes: list[int], random: Random) -> None:
        """Some blocks from a file, in any order and place: parents may be missing, or come after their children."""
        free = self.slow.free()
        random.shuffle(free)
        absent = [each for each in NAMES[NAMES.index(name) :] if self.lru.slots(each) is None]
        random.shuffle(absent)
        for each, size in zip(absent, sizes, strict=False):
            if len(free) >= size:
                slots, free = free[:size], free[size:]
                self.lru.adopt(each, PARENTS[each], slots)
                self.slow.add(each, PARENTS[each], slots)

    @rule(names=st.lists(ANY, min_size=1, max_size=3))
    def touch(self, names: list[Name]) -> None:
        for name in names:
            self.lru.touch(chain_to(name))
            self.slow.touch(chain_to(name))

    @rule(name=ANY)
    def remove(self, name: Name) -> None:
        children = self.children()
        gone = self.lru.remove(name)
        assert all(children.get(each, set()) <= set(gone[:i]) for i, each in enumerate(gone))
        assert set(gone) == self.slow.remove(name)
        assert len(gone) == len(set(gone))

    @rule(names=st.lists(ANY, max_size=6))
    def pin(self, names: list[Name]) -> None:
        self.lru.pin(iter(names))
        self.slow.pinned = names

    def children(self) -> dict[Name, set[Name]]:
        names = self.lru.names
        return {parent: {name for name in names if self.lru.parent(name) == parent} for parent in names}

    @invariant()
    def every_slot_is_free_or_has_one_owner(self) -> None:
        owned = [slot for name in self.lru.names for slot in self.lru.slots(name) or ()]
        assert len(set(owned)) == len(owned) == self.slow.size - self.lru.free
        assert set(owned) <= set(range(self.slow.size))

    @invariant()
    def has_the_blocks_of_the_lists(self) -> None:
        names = self.lru.names
        assert len(self.lru) == len(names) == len(set(names))
        assert {name: list(self.lru.slots(name) or ()) for name in names} == self.slow.slots
        assert {name: self.lru.parent(name) for name in names} == self.slow.parents


LruStates.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestLruStates = LruStates.TestCase
