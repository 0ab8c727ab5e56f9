"""Which block has which slots of a tier, and who goes when there are too few. No bytes, no files, no threads."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from kv_store.block import Name

PROTECTED = 4, 5  # share of the slots: the rest is where new blocks must prove that they are used
NOT_HELD = -math.inf


class Taken(NamedTuple):
    """The slots that a block got, ascending, and the blocks that went for it, children before their parents."""

    slots: tuple[int, ...]
    evicted: tuple[Name, ...]


@dataclass(slots=True)
class _Block:
    parent: Name
    slots: tuple[int, ...]
    stamp: int  # grows with every use; no two blocks ever have the same


class _Hold(NamedTuple):
    names: frozenset[Name]
    until: float


class _Leaf(NamedTuple):
    """A block without children that may go; the least goes first."""

    until: float
    protected: bool
    stamp: int
    name: Name


E = TypeVar("E", int, _Leaf)


class _Heap(Generic[E]):
    """Entries, the least first. Outdated ones are dropped when they come up, or when they are too many."""

    def __init__(self, current: Callable[[E], bool], entries: Iterable[E] = ()) -> None:
        self._current, self._entries = current, list(entries)
        self._tidy()

    def push(self, entry: E) -> None:
        heappush(self._entries, entry)
        if len(self._entries) > self._most:
            self._entries = list(set(filter(self._current, self._entries)))
            self._tidy()

    def pop(self) -> E | None:
        while self._entries:
            if self._current(entry := heappop(self._entries)):
                return entry
        return None

    def _tidy(self) -> None:
        heapify(self._entries)
        self._most = 2 * len(self._entries) + 64


class Ledger:
    """Every slot is free or belongs to one block, a block has one or more.

    Only blocks without children go. First those that nobody needs, by segmented LRU: new blocks are on probation
    until they are used, and those used least recently return to it where the protected segment is full. Then those
    that are needed for a while, the one whose time ends soonest first. Pinned ones never go.
    """

    def __init__(self, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Have so many slots, all free, and a clock that tells seconds and never goes back."""
        self._size, self._clock = slots, clock
        self._blocks: dict[Name, _Block] = {}
        self._children: dict[Name, set[Name]] = {}  # of all parents that have any, held or not
        self._holds: dict[Hashable, _Hold] = {}
        self._protected: OrderedDict[Name, None] = OrderedDict()  # least recently used first
        self._protected_slots = 0
        self._stamp = 0
        self._free = set(range(slots))
        self._lowest = _Heap[int](self._is_free, self._free)
        self._leaves = _Heap[_Leaf](self._is_current)

    def __len__(self) -> int:
        """How many blocks are held."""
        return len(self._blocks)

    @property
    def names(self) -> list[Name]:
        """The blocks that are held, in no order."""
        return list(self._blocks)

    @property
    def free(self) -> int:
        """How many slots are free."""
        return len(self._free)

    def slots(self, name: Name) -> tuple[int, ...] | None:
        """The slots of a block; None where it is not held."""
        return self._blocks[name].slots if name in self._blocks else None

    def parent(self, name: Name) -> Name | None:
        """The parent of a block; None where the block is not held."""
        return self._blocks[name].parent if name in self._blocks else None

    def take(self, name: Name, parent: Name, need: int = 1) -> Taken | None:
        """Give a new block the lowest free slots, other blocks going one by one until there are enough.

        None where there cannot be enough, and then nothing has changed. The parent and those before it stay.
        """
        assert name not in self._blocks and need > 0
        self._link(name, parent)
        victims = self._victims(need)
        if victims is None:
            self._unlink(name, parent)
            return None
        for victim, block in victims.items():
            self._release(victim, block)
        slots = tuple(self._lowest_free() for _ in range(need))
        self._add(name, parent, slots)
        return Taken(slots, tuple(victims))

    def adopt(self, name: Name, parent: Name, slots: Sequence[int]) -> None:
        """Enter a block that has slots already, which must be free; the blocks of a file in order, oldest first."""
        assert name not in self._blocks and slots and self._free.issuperset(slots)
        self._free.difference_update(slots)
        self._link(name, parent)
        self._add(name, parent, tuple(slots))

    def use(self, names: Sequence[Name]) -> None:
        """Say that a chain was used, root first; blocks that are not held are passed over."""
        for name in reversed(names):  # parents are used after their children, and so go after them
            if name in self._blocks:
                self._protect(name)
        numerator, denominator = PROTECTED
        while self._protected_slots > self._size * numerator // denominator:
            name = next(iter(self._protected))
            self._unprotect(name, self._blocks[name])
            self._mark(name)

    def drop(self, name: Name) -> list[Name]:
        """Free the slots of a block and of all behind it; returns who went, children before parents."""
        gone = [name] if name in self._blocks else []
        for each in gone:  # which grows meanwhile
            gone.extend(self._children.get(each, ()))
        gone.reverse()
        for each in gone:
            block = self._blocks.pop(each)
            self._unlink(each, block.parent)
            self._release(each, block)
        return gone

    def hold(self, holder: Hashable, names: Iterable[Name], until: float) -> None:
        """Say which blocks a holder needs and until when, in place of what it said before.

        `until` in seconds of the clock; infinity pins them. It holds for blocks that are taken later, too.
        """
        before, now = self._holds.pop(holder, None), frozenset(names)
        if now:
            self._holds[holder] = _Hold(now, until)
        for name in now | before.names if before else now:
            self._offer(name)

    def _victims(self, need: int) -> dict[Name, _Block] | None:
        """Take away the blocks that must go for `need` slots; None where it is not enough, and then none is gone."""
        self._let_expire()
        victims, room = dict[Name, _Block](), len(self._free)
        while room < need:
            if (leaf := self._leaves.pop()) is None:
                self._put_back(victims)
                return None
            block = victims[leaf.name] = self._blocks.pop(leaf.name)
            self._unlink(leaf.name, block.parent)
            room += len(block.slots)
        return victims

    def _put_back(self, victims: dict[Name, _Block]) -> None:
        self._blocks.update(victims)
        for name, block in victims.items():
            self._link(name, block.parent)
        for name in victims:
            self._offer(name)

    def _let_expire(self) -> None:
        now = self._clock()
        for holder in [holder for holder, hold in self._holds.items() if hold.until <= now]:
            self.hold(holder, (), now)

    def _add(self, name: Name, parent: Name, slots: tuple[int, ...]) -> None:
        self._blocks[name] = _Block(parent, slots, self._stamp)
        self._mark(name)

    def _lowest_free(self) -> int:
        slot = self._lowest.pop()
        assert slot is not None
        self._free.remove(slot)
        return slot

    def _release(self, name: Name, block: _Block) -> None:
        """Forget what is left of a block that is no longer held."""
        if name in self._protected:
            self._unprotect(name, block)
        self._free.update(block.slots)
        for slot in block.slots:
            self._lowest.push(slot)

    def _link(self, name: Name, parent: Name) -> None:
        self._children.setdefault(parent, set()).add(name)

    def _unlink(self, name: Name, parent: Name) -> None:
        children = self._children[parent]
        children.remove(name)
        if not children:
            del self._children[parent]
            self._offer(parent)

    def _protect(self, name: Name) -> None:
        if name not in self._protected:
            self._protected_slots += len(self._blocks[name].slots)
            self._protected[name] = None
        self._protected.move_to_end(name)
        self._mark(name)

    def _unprotect(self, name: Name, block: _Block) -> None:
        del self._protected[name]
        self._protected_slots -= len(block.slots)

    def _mark(self, name: Name) -> None:
        """Make a block the youngest of its segment."""
        self._stamp += 1
        self._blocks[name].stamp = self._stamp
        self._offer(name)

    def _offer(self, name: Name) -> None:
        if (leaf := self._leaf(name)) is not None:
            self._leaves.push(leaf)

    def _leaf(self, name: Name) -> _Leaf | None:
        """What to queue a block as; None where it cannot go."""
        if name in self._children or name not in self._blocks:
            return None
        until = max((hold.until for hold in self._holds.values() if name in hold.names), default=NOT_HELD)
        if until == math.inf:
            return None
        return _Leaf(until, name in self._protected, self._blocks[name].stamp, name)

    def _is_current(self, leaf: _Leaf) -> bool:
        return self._leaf(leaf.name) == leaf

    def _is_free(self, slot: int) -> bool:
        return slot in self._free
