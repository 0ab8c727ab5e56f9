"""Tiers of a fixed number of blocks that are all equally large: one evicts by rank, one is the store's own."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

from efim_lab.studies.eviction.history import NO_FIRST
from efim_lab.studies.eviction.policies import EvictionPolicy
from kv_store.block import Name
from kv_store.eviction import SegmentedLru


class SimulatedTier(Protocol):
    """Where blocks are kept, or not."""

    def read(self, names: Sequence[Name]) -> int:
        """Return how many of a chain's first blocks are here."""
        ...

    def use(self, names: Sequence[Name], depths: range, now: int, is_old: bool = False) -> None:
        """Mark a chain's blocks at these depths as used; those that are not here are added."""
        ...


class RankedTier:
    """A tier that evicts the block of the lowest rank, whether or not its children stay, as a server does."""

    def __init__(self, capacity: int, policy: EvictionPolicy) -> None:
        """Start empty."""
        self._capacity, self._policy = capacity, policy
        self._ranks: dict[Name, float] = {}
        self._lowest: list[tuple[float, Name]] = []  # outdated ones are removed when they come up

    def read(self, names: Sequence[Name]) -> int:
        """Return how many of a chain's first blocks are here."""
        return next((at for at, name in enumerate(names) if name not in self._ranks), len(names))

    def use(self, names: Sequence[Name], depths: range, now: int, is_old: bool = False) -> None:
        """Mark a chain's blocks at these depths as used; those that are not here are added."""
        for depth in depths:
            name = names[depth]
            self._ranks[name] = rank = self._policy.rank(name, depth, now, is_old)
            heappush(self._lowest, (rank, name))
            while len(self._ranks) > self._capacity:
                self._evict()
        if len(self._lowest) > 2 * len(self._ranks) + 64:
            self._lowest = [(rank, name) for name, rank in self._ranks.items()]
            heapify(self._lowest)

    def _evict(self) -> None:
        rank, name = heappop(self._lowest)
        if self._ranks.get(name) == rank:
            del self._ranks[name]
            self._policy.evicted(name, rank)


class SegmentedTier:
    """The store's own segmented LRU, which evicts no block before its children."""

    def __init__(self, capacity: int) -> None:
        """Start empty."""
        self._lru = SegmentedLru(capacity)

    def read(self, names: Sequence[Name]) -> int:
        """Return how many of a chain's first blocks are here, and mark these as used."""
        here = next((at for at, name in enumerate(names) if self._lru.slots(name) is None), len(names))
        self._lru.touch(names[:here])
        return here

    def use(self, names: Sequence[Name], depths: range, now: int, is_old: bool = False) -> None:
        """Add a chain's blocks at these depths that are not here, while there is room."""
        for depth in depths:
            if self._lru.slots(names[depth]) is not None:
                continue
            if self._lru.allocate(names[depth], names[depth - 1] if depth else NO_FIRST) is None:
                return
