"""Segmented LRU over the slots of a tier: which block has which slots, and which block goes when slots run out.

No bytes, no files, no threads.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from kv_store.block import Name

PROTECTED_SHARE = 4, 5  # numerator and denominator; the rest of the slots is for probation


class Allocation(NamedTuple):
    """The slots of a new block, ascending, and the blocks evicted for it, children before their parents."""

    slots: tuple[int, ...]
    evicted: tuple[Name, ...]


@dataclass(slots=True)
class _Entry:
    parent: Name
    slots: tuple[int, ...]
    stamp: int  # grows with every use; unique among all blocks


class _Leaf(NamedTuple):
    """A block without children that may be evicted; the smallest goes first."""

    protected: bool
    stamp: int
    name: Name


E = TypeVar("E", int, _Leaf)


class _Heap(Generic[E]):
    """Entries, the smallest first. Outdated ones are removed when they come up, or when there are too many."""

    def __init__(self, current: Callable[[E], bool], entries: Iterable[E] = ()) -> None:
        self._current, self._entries = current, list(entries)
        self._tidy()

    def push(self, entry: E) -> None:
        heappush(self._entries, entry)
        if len(self._entries) > self._limit:
            self._entries = list(set(filter(self._current, self._entries)))
            self._tidy()

    def pop(self) -> E | None:
        while self._entries:
            if self._current(entry := heappop(self._entries)):
                return entry
        return None

    def _tidy(self) -> None:
        heapify(self._entries)
        self._limit = 2 * len(self._entries) + 64


class SegmentedLru:
    """Segmented LRU with pins. Every slot is free or belongs to one block; a block has one or more.

    - Probation: new blocks start here. Evicted first, the least recently used one before the others.
    - Protected: blocks move here when they are used. When the segment is full, the least recently used ones go back
      to probation.
    - Pinned: never evicted.

    Only blocks without children are evicted, so every block that stays can still be reached.
    """

    def __init__(self, slots: int) -> None:
        """Begin with `slots` free slots."""
        self._size = slots
        self._entries: dict[Name, _Entry] = {}
        # Of every parent that has any, whether it is here or not; nearly all have one, for which a set is large.
        self._children: dict[Name, list[Name]] = {}
        self._pinned: frozenset[Name] = frozenset()
        self._protected: OrderedDict[Name, None] = OrderedDict()  # least recently used first
        self._protected_slots = 0
        self._stamp = 0
        self._free = set(range(slots))
        self._lowest = _Heap[int](self._is_free, self._free)
        self._leaves = _Heap[_Leaf](self._is_current)

    def __len__(self) -> int:
        """Return how many blocks are here."""
        return len(self._entries)

    @property
    def names(self) -> list[Name]:
        """The names of all blocks, in no particular order."""
        return list(self._entries)

    @property
    def free(self) -> int:
        """The number of free slots."""
        return len(self._free)

    def slots(self, name: Name) -> tuple[int, ...] | None:
        """Return the slots of a block, or None if it is not here."""
        return self._entries[name].slots if name in self._entries else None

    def parent(self, name: Name) -> Name | None:
        """Return the parent of a block, or None if the block is not here."""
        return self._entries[name].parent if name in self._entries else None

    def allocate(self, name: Name, parent: Name, need: int = 1) -> Allocation | None:
        """Give a new block the `need` lowest free slots, evicting other blocks until there are enough.

        Returns None, and changes nothing, if there cannot be enough. The parent and its ancestors stay.
        """
        assert name not in self._entries and need > 0
        self._link(name, parent)
        victims = self._detach_victims(need)
        if victims is None:
            self._unlink(name, parent)
            return None
        for victim, entry in victims.items():
            self._release(victim, entry)
        slots = tuple(self._lowest_free() for _ in range(need))
        self._add(name, parent, slots)
        return Allocation(slots, tuple(victims))

    def adopt(self, name: Name, parent: Name, slots: Sequence[int]) -> None:
        """Add a block that already has slots, which must be free here; call it in order of use, oldest first."""
        assert name not in self._entries and slots and self._free.issuperset(slots)
        self._free.difference_update(slots)
        self._link(name, parent)
        self._add(name, parent, tuple(slots))

    def touch(self, names: Sequence[Name]) -> None:
        """Mark the blocks of a chain, root first, as used; names that are not here are ignored."""
        for name in reversed(names):  # parents are used after their children, and so are evicted after them
            if name in self._entries:
                self._protect(name)
        numerator, denominator = PROTECTED_SHARE
        while self._protected_slots > self._size * numerator // denominator:
            name = next(iter(self._protected))
            self._unprotect(name, self._entries[name])
            self._mark_youngest(name)

    def remove(self, name: Name) -> list[Name]:
        """Free the slots of a block and of all its descendants; returns their names, children before parents."""
        removed = [name] if name in self._entries else []
        for each in removed:  # the list grows meanwhile
            removed.extend(self._children.get(each, ()))
        removed.reverse()
        for each in removed:
            entry = self._entries.pop(each)
            self._unlink(each, entry.parent)
            self._release(each, entry)
        return removed

    def pin(self, names: Iterable[Name]) -> None:
        """Pin these blocks in place of those pinned before; blocks that are added later are pinned by name, too."""
        before, self._pinned = self._pinned, frozenset(names)
        for name in before - self._pinned:
            self._offer(name)

    def _detach_victims(self, need: int) -> dict[Name, _Entry] | None:
        """Take out the blocks that must go for `need` slots; None, with all put back, if those are not enough."""
        victims, room = dict[Name, _Entry](), len(self._free)
        while room < need:
            if (leaf := self._leaves.pop()) is None:
                self._put_back(victims)
                return None
            entry = victims[leaf.name] = self._entries.pop(leaf.name)
            self._unlink(leaf.name, entry.parent)
            room += len(entry.slots)
        return victims

    def _put_back(self, victims: dict[Name, _Entry]) -> None:
        self._entries.update(victims)
        for name, entry in victims.items():
            self._link(name, entry.parent)
        for name in victims:
            self._offer(name)

    def _add(self, name: Name, parent: Name, slots: tuple[int, ...]) -> None:
        self._entries[name] = _Entry(parent, slots, self._stamp)
        self._mark_youngest(name)

    def _lowest_free(self) -> int:
        slot = self._lowest.pop()
        assert slot is not None
        self._free.remove(slot)
        return slot

    def _release(self, name: Name, entry: _Entry) -> None:
        """Free the slots of a block that has been taken out."""
        if name in self._protected:
            self._unprotect(name, entry)
        self._free.update(entry.slots)
        for slot in entry.slots:
            self._lowest.push(slot)

    def _link(self, name: Name, parent: Name) -> None:
        if (children := self._children.get(parent)) is None:
            self._children[parent] = [name]
        else:
            children.append(name)

    def _unlink(self, name: Name, parent: Name) -> None:
        children = self._children[parent]
        children.remove(name)
        if not children:
            del self._children[parent]
            self._offer(parent)

    def _protect(self, name: Name) -> None:
        if name not in self._protected:
            self._protected_slots += len(self._entries[name].slots)
            self._protected[name] = None
        self._protected.move_to_end(name)
        self._mark_youngest(name)

    def _unprotect(self, name: Name, entry: _Entry) -> None:
        del self._protected[name]
        self._protected_slots -= len(entry.slots)

    def _mark_youngest(self, name: Name) -> None:
        """Make a block the youngest of its segment."""
        self._stamp += 1
        self._entries[name].stamp = self._stamp
        self._offer(name)

    def _offer(self, name: Name) -> None:
        """Queue a block for eviction if it may be evicted."""
        if (leaf := self._leaf(name)) is not None:
            self._leaves.push(leaf)

    def _leaf(self, name: Name) -> _Leaf | None:
        """Return a block's place in the order of eviction, or None if it cannot be evicted."""
        if name in self._children or name not in self._entries or name in self._pinned:
            return None
        return _Leaf(name in self._protected, self._entries[name].stamp, name)

    def _is_current(self, leaf: _Leaf) -> bool:
        return self._leaf(leaf.name) == leaf

    def _is_free(self, slot: int) -> bool:
        return slot in self._free
