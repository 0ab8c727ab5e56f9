"""Policies that rank blocks when they are used: the block of the lowest rank goes first.

Except in the first policy, blocks of one chain that are used at one time go from its end to its root: without its
root a chain is lost. A block is `old` once its file has changed in front of it or in it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from efim_lab.studies.eviction.history import Touch
from kv_store.block import Name

Cost = Callable[[int], float]  # of computing again the block at a depth, which is 0 for a chain's first

MINUTE = 60
DAY = 24 * 60 * MINUTE
GAPS = [MINUTE << step for step in range(21)]  # seconds, to two years
KINDS = ("new", "used", "used again", "old")
BANDS = 12  # of depth: band b has blocks from 2^(b - 1) on, the last one all others
DEEPER = 2**-20  # of a rank: what a block goes sooner than its parent
LOWEST_PRICE, HIGHEST_PRICE, HALVINGS = 1e-12, 1.0, 30  # of a block's room for a second
CHOSEN_EVERY = 4096  # uses


class EvictionPolicy(Protocol):
    """Ranks blocks, and learns which go."""

    def rank(self, name: Name, depth: int, now: int, is_old: bool) -> float:
        """Return the rank of a block that is used, which holds until it is used again."""
        ...

    def evicted(self, name: Name, rank: float) -> None:
        """Learn that a block has gone."""
        ...


class Lru:
    """The least recently used goes first; a chain is used from its root on, or with `roots_last` from its end.

    An old block counts as if it had not been used for `old_unused` seconds by then.
    """

    def __init__(self, roots_last: bool, old_unused: int = 0) -> None:
        """Start before the first use."""
        self._sign, self._old_unused = -1 if roots_last else 1, old_unused

    def rank(self, name: Name, depth: int, now: int, is_old: bool) -> float:
        """Return when a block was used."""
        return now - is_old * self._old_unused + self._sign * DEEPER * depth

    def evicted(self, name: Name, rank: float) -> None:
        """Learn nothing."""


class Gdsf:
    """Greedy dual size frequency: cost times uses, and what the last block that went had."""

    def __init__(self, cost: Cost) -> None:
        """Start without a block."""
        self._cost, self._uses, self._clock = cost, Counter[Name](), 0.0

    def rank(self, name: Name, depth: int, now: int, is_old: bool) -> float:
        """Return what a block is worth, on a clock by which those that are no longer used grow old."""
        self._uses[name] += 1
        return self._clock + self._uses[name] * self._cost(depth)

    def evicted(self, name: Name, rank: float) -> None:
        """Set the clock."""
        del self._uses[name]
        self._clock = rank


class Lifetime(NamedTuple):
    """For how many seconds after a use a block is kept, by its kind and its least depth in blocks."""

    kind: str
    depth: int
    seconds: int


class ReturnTtl:
    """Time to live by return (Continuum, arXiv 2511.02230), which a client can send with each block.

    Blocks are sorted by kind and depth. Each sort is to be kept for the time that brings most: the share of its uses
    that were followed by another use within that time, times its cost, less a price for the seconds of room. At this
    price all kept blocks fill the tier. Blocks stay longer where there is room: ranks say in which order they expire,
    and so which goes first.
    """

    def __init__(self, cost: Cost, capacity: int) -> None:
        """Begin as if one use of each sort had returned after each time, and one never."""
        self._costs = np.array([[cost((1 << band) * 3 // 4)] for band in range(BANDS)])
        # Lists [kinds][bands], which are counted in faster than arrays.
        self._returns = [[[1] * len(GAPS) for _ in range(BANDS)] for _ in KINDS]
        self._uses = [[len(GAPS) + 1] * BANDS for _ in KINDS]
        self._last: dict[Name, tuple[int, int]] = {}  # when a block was used, and its kind since
        self._capacity, self._ranked, self._begin, self._now = capacity, 0, 0, 0
        self._seconds = self._chosen()

    def rank(self, name: Name, depth: int, now: int, is_old: bool) -> float:
        """Return when the block expires."""
        band, kind = min(depth.bit_length(), BANDS - 1), 0
        if (last := self._last.get(name)) is not None:
            when, before = last
            kind = min(before + 1, 2)
            if (gap := bisect_left(GAPS, now - when)) < len(GAPS):
                self._returns[before][band][gap] += 1
        if is_old:
            kind = KINDS.index("old")
        self._last[name] = now, kind
        self._uses[kind][band] += 1
        self._begin, self._now = self._begin or now, now
        self._ranked += 1
        if self._ranked % CHOSEN_EVERY == 0:
            self._seconds = self._chosen()
        return now + self._seconds[kind][band] - DEEPER * depth

    def evicted(self, name: Name, rank: float) -> None:
        """Learn nothing."""

    def lifetimes(self) -> list[Lifetime]:
        """Return how long each sort is to be kept by now."""
        depths = [0, *(1 << band for band in range(BANDS - 1))]
        found = zip(KINDS, self._chosen(), strict=True)
        return [Lifetime(kind, *each) for kind, row in found for each in zip(depths, row, strict=True)]

    def _chosen(self) -> list[list[int]]:
        """Return the seconds of each sort [kinds][bands] at the price at which they fill the tier."""
        gaps, returns, uses = np.array(GAPS), np.array(self._returns), np.array(self._uses)[:, :, None]
        back = returns.cumsum(-1) / uses
        held = (returns * gaps).cumsum(-1) / uses + gaps * (1 - back)
        filling = held * uses / max(1, self._now - self._begin)  # blocks, if all of a sort are kept for a time
        low, high = LOWEST_PRICE, HIGHEST_PRICE
        worth, kept = back * self._costs, np.zeros(held.shape[:2], int)
        for _ in range(HALVINGS):
            price = math.sqrt(low * high)
            values = worth - price * held
            kept, pays = values.argmax(-1), values.max(-1) > 0
            filled = np.where(pays, np.take_along_axis(filling, kept[:, :, None], -1)[:, :, 0], 0).sum()
            low, high = (price, high) if filled > self._capacity else (low, price)
        values = worth - high * held
        return np.where(values.max(-1) > 0, gaps[values.argmax(-1)], 0).tolist()


class Farthest:
    """The block whose next read is farthest away goes first: no server can know that. Costs do not count."""

    def __init__(self, touches: Sequence[Touch]) -> None:
        """Look at all that will be read."""
        self._reads: dict[Name, list[int]] = {}
        for touch in touches:
            for name in touch.before:
                self._reads.setdefault(name, []).append(touch.time)

    def rank(self, name: Name, depth: int, now: int, is_old: bool) -> float:
        """Return how soon the block is read again, the sooner the higher."""
        reads = self._reads.get(name, [])
        at = bisect_right(reads, now)
        return -reads[at] - DEEPER * depth if at < len(reads) else -math.inf

    def evicted(self, name: Name, rank: float) -> None:
        """Learn nothing."""
