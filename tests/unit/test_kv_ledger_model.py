"""Who has which slots: against plain lists that are searched from end to end."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Sequence
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kv_store.block import Name
from kv_store.eviction import Ledger, Taken
from tests.unit.test_kv_ledger import ROOT, Clock, future

NAMES = [bytes([i]) for i in range(16)]
# A tree: the first two blocks follow the root, each other follows one of those before it.
PARENTS = {name: NAMES[(3 * i) // 4 - 1] if i > 1 else ROOT for i, name in enumerate(NAMES)}
ANY = st.sampled_from(NAMES)
HOLDERS = st.integers(0, 2)


def chain_to(name: Name) -> list[Name]:
    return [*(chain_to(PARENTS[name]) if PARENTS[name] != ROOT else []), name]


class Slow:
    """What a ledger should do, by the rules, with plain lists that are searched from end to end."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots: dict[Name, list[int]] = {}
        self.parents: dict[Name, Name] = {}
        self.probation: list[Name] = []  # oldest first
        self.protected: list[Name] = []
        self.holds: dict[Hashable, tuple[list[Name], float]] = {}

    def free(self) -> list[int]:
        used = {slot for slots in self.slots.values() for slot in slots}
        return [slot for slot in range(self.size) if slot not in used]

    def until(self, name: Name) -> float:
        return max((until for names, until in self.holds.values() if name in names), default=-math.inf)

    def leaves(self, but: Name) -> list[Name]:
        """Those that could go for a child of `but`, in the order of segmented LRU."""
        parents = {*self.parents.values(), but}
        return [
            name for name in self.probation + self.protected if name not in parents and self.until(name) < math.inf
        ]

    def victim(self, but: Name, now: float) -> Name | None:
        leaves = self.leaves(but)
        unneeded = [name for name in leaves if self.until(name) <= now]
        return unneeded[0] if unneeded else min(leaves, key=self.until, default=None)

    def add(self, name: Name, parent: Name, slots: Sequence[int]) -> None:
        self.slots[name], self.parents[name] = list(slots), parent
        self.probation.append(name)

    def remove(self, name: Name) -> None:
        del self.slots[name], self.parents[name]
        (self.probation if name in self.probation else self.protected).remove(name)

    def take(self, name: Name, parent: Name, need: int, now: float) -> Taken | None:
        before = copy.deepcopy(vars(self))
        evicted = list[Name]()
        while len(self.free()) < need:
            if (victim := self.victim(parent, now)) is None:
                vars(self).update(before)
                return None
            evicted.append(victim)
            self.remove(victim)
        self.add(name, parent, slots := self.free()[:need])
        return Taken(tuple(slots), tuple(evicted))

    def use(self, names: Sequence[Name]) -> None:
        for name in reversed([name for name in names if name in self.slots]):
            (self.probation if name in self.probation else self.protected).remove(name)
            self.protected.append(name)
        while sum(len(self.slots[name]) for name in self.protected) > 0.8 * self.size:
            self.probation.append(self.protected.pop(0))

    def drop(self, name: Name) -> set[Name]:
        if name not in self.slots:
            return set()
        gone = {name}.union(*(self.drop(child) for child, parent in list(self.parents.items()) if parent == name))
        self.remove(name)
        return gone


class Bookkeeping(RuleBasedStateMachine):
    """A ledger beside plain lists, and what must hold whatever those say."""

    @initialize(size=st.sampled_from((0, 1, 4, 5, 8, 10, 12)))
    def start(self, size: int) -> None:
        self.clock = Clock()
        self.ledger, self.slow = Ledger(size, self.clock), Slow(size)

    @rule(name=ANY, needs=st.lists(st.sampled_from((1, 1, 1, 2, 4)), min_size=len(NAMES), max_size=len(NAMES)))
    def write(self, name: Name, needs: list[int]) -> None:
        """A chain, up to the first for which there is no room."""
        for each, need in zip(chain_to(name), needs, strict=False):
            if self.ledger.slots(each) is None:
                self.take(each, need)
            if self.ledger.slots(each) is None:
                break

    @rule(name=ANY, need=st.integers(1, 4))
    def take_behind_anything(self, name: Name, need: int) -> None:
        if self.ledger.slots(name) is None:
            self.take(name, need)

    def take(self, name: Name, need: int) -> None:
        before, children = copy.deepcopy(self.ledger), self.children()
        taken = self.ledger.take(name, PARENTS[name], need)
        if taken is None:
            assert future(self.ledger) == future(before)
        else:
            self.check_evicted(name, taken.evicted, children)
        assert taken == self.slow.take(name, PARENTS[name], need, self.clock.now)

    def check_evicted(self, name: Name, evicted: Sequence[Name], children: dict[Name, set[Name]]) -> None:
        stay, ancestor = list(children), PARENTS[name]
        while ancestor in children:
            assert ancestor not in evicted
            ancestor = PARENTS[ancestor]
        for each in evicted:
            leaves = [leaf for leaf in stay if not children[leaf] & set(stay) and leaf != PARENTS[name]]
            assert each in leaves, "children go before their parents"
            assert self.slow.until(each) < math.inf, "pinned blocks stay"
            if self.slow.until(each) > self.clock.now:
                assert all(self.slow.until(leaf) > self.clock.now for leaf in leaves), "others go first"
            stay.remove(each)

    @rule(name=ANY, sizes=st.lists(st.integers(1, 3), max_size=4), random=st.randoms(use_true_random=False))
    def adopt(self, name: Name, sizes: list[int], random: Random) -> None:
        """Some blocks from a file, in any order and place: parents may be missing, or come after their children."""
        free = self.slow.free()
        random.shuffle(free)
        absent = [each for each in NAMES[NAMES.index(name) :] if self.ledger.slots(each) is None]
        random.shuffle(absent)
        for each, size in zip(absent, sizes, strict=False):
            if len(free) >= size:
                slots, free = free[:size], free[size:]
                self.ledger.adopt(each, PARENTS[each], slots)
                self.slow.add(each, PARENTS[each], slots)

    @rule(names=st.lists(ANY, min_size=1, max_size=3))
    def use(self, names: list[Name]) -> None:
        for name in names:
            self.ledger.use(chain_to(name))
            self.slow.use(chain_to(name))

    @rule(name=ANY)
    def drop(self, name: Name) -> None:
        children = self.children()
        gone = self.ledger.drop(name)
        assert all(children.get(each, set()) <= set(gone[:i]) for i, each in enumerate(gone))
        assert set(gone) == self.slow.drop(name)
        assert len(gone) == len(set(gone))

    @rule(holder=HOLDERS, names=st.lists(ANY, max_size=3), seconds=st.sampled_from((-1, 5, 10, 30, math.inf)))
    def hold(self, holder: int, names: list[Name], seconds: float) -> None:
        until = self.clock.now + seconds
        self.ledger.hold(holder, iter(names), until)
        self.slow.holds[holder] = names, until

    @rule(seconds=st.integers(1, 20))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    def children(self) -> dict[Name, set[Name]]:
        held = self.ledger.names
        return {parent: {name for name in held if self.ledger.parent(name) == parent} for parent in held}

    @invariant()
    def every_slot_is_free_or_has_one_owner(self) -> None:
        owned = [slot for name in self.ledger.names for slot in self.ledger.slots(name) or ()]
        assert len(set(owned)) == len(owned) == self.slow.size - self.ledger.free
        assert set(owned) <= set(range(self.slow.size))

    @invariant()
    def holds_what_the_lists_hold(self) -> None:
        held = self.ledger.names
        assert len(self.ledger) == len(held) == len(set(held))
        assert {name: list(self.ledger.slots(name) or ()) for name in held} == self.slow.slots
        assert {name: self.ledger.parent(name) for name in held} == self.slow.parents


Bookkeeping.TestCase.settings = settings(max_examples=250, stateful_step_count=60, deadline=None)
TestBookkeeping = Bookkeeping.TestCase
