"""The rule of layers that have a state, of all tokens so far: computing goes on where one is kept."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from model_runtime.row_rules import KeptState, RowRule

GRID = 64  # tokens between places at which states are kept, while there is room


class Snapshots:
    """Places of a sequence, counts of its first tokens, after which states are kept, and the slot of each.

    The live states, which the next pass goes on from, stand at `live`, or nowhere if that is -1. When all slots are
    taken, the place goes that is missed least: the tokens that would be computed again for want of it, times those
    after which it would be wanted, divided by how far it is from the end. So places are dense near the end, and far
    from it their distances grow with its square root. Places at `marks` go last.
    """

    def __init__(self, most: int) -> None:
        """Start with nothing kept, and slots for `most`."""
        self.live, self.marks = 0, frozenset[int]()
        self._slots: dict[int, int] = {}
        self._free = list(range(most))

    @property
    def places(self) -> list[int]:
        """The places whose states are kept, in order."""
        return sorted(self._slots)

    def slot(self, place: int) -> int:
        """Return the slot of a place whose states are kept."""
        return self._slots[place]

    def resumes_at(self, length: int) -> int:
        """Return the last place, at or before `length`, whose states are there; 0 if there is none."""
        return max(place for place in (0, *self._slots, self.live) if place <= length)

    def begin_pass(self, start: int, count: int, rows: int) -> tuple[KeptState, ...]:
        """Take slots for the states that a pass over `count` tokens after `start` is to keep; return these.

        They are at marks, at every GRID tokens, and before a draft, if more than the last of the `rows` get logits.
        """
        assert self.live == start, "states stand elsewhere"
        self.truncate(start)
        end, self.live = start + count, -1  # until the pass has ended well
        wanted = {*range(start // GRID * GRID + GRID, end + 1, GRID)}
        wanted |= {mark for mark in (*self.marks, *([end - rows + 1] if rows > 1 else [])) if start < mark <= end}
        for place in sorted(wanted):
            self.keep(place)
        return tuple([KeptState(place - start, self._slots[place]) for place in self.places if place > start])

    def keep(self, place: int) -> int:
        """Return the slot for the states at a place, which are written next; another place may lose its own."""
        if place not in self._slots:
            slot = self._free.pop() if self._free else self._slots.pop(self._least_needed(place))
            self._slots[place] = slot
        return self._slots[place]

    def saved(self, unit: int) -> frozenset[int]:
        """Return the places, multiples of `unit`, whose states are worth saving: the last before each mark and all.

        States are large, and requests after a restart go on from these.
        """
        whole = [place for place in self.places if not place % unit]
        last = (max((place for place in whole if place <= mark), default=0) for mark in (*self.marks, self.live))
        return frozenset(last) - {0}

    def truncate(self, length: int) -> None:
        """Forget the states after the first `length` tokens."""
        for place in [place for place in self._slots if place > length]:
            self._free.append(self._slots.pop(place))

    def copy_places(self, others: Iterable[int]) -> None:
        """Keep the same places as another sequence, in slots of our own."""
        self.truncate(0)
        for place in others:
            self.keep(place)

    def _least_needed(self, new: int) -> int:
        """Return the kept place that is missed least once there is a new one at the end."""
        ends, costs = [0, *self.places, new], list[tuple[bool, float, int]]()
        for (before, place), (_, after) in pairwise(pairwise(ends)):
            costs.append((place in self.marks, (place - before) * (after - place) / max(1, new - place), place))
        return min(costs)[2]


class StateRule(RowRule):
    """Keeps states in slots: `numbers` [1 + slots, numbers] holds the live ones, then those that are kept."""

    def __init__(self, slots: int, numbers: Any = None) -> None:
        """Start with nothing kept; without `numbers` only the places are followed."""
        self.snapshots, self._numbers = Snapshots(slots), numbers

    def resumes_at(self, _rows: Any, length: int) -> int:
        """Return the last place whose states are there."""
        return self.snapshots.resumes_at(length)

    def truncated(self, _rows: Any, length: int) -> None:
        """Go on from the states after the first `length` tokens."""
        if self.snapshots.live != length:
            if self._numbers is not None:
                self._numbers[0] = self._numbers[1 + self.snapshots.slot(length)] if length else 0
            self.snapshots.live = length
        self.snapshots.truncate(length)

    def marked(self, places: Iterable[int]) -> None:
        """Have states kept at these places last of all given up."""
        self.snapshots.marks = frozenset(places)

    def before_pass(self, rows: Any, count: int, wanted: int) -> tuple[KeptState, ...]:
        """Return the states that the pass is to keep."""
        return self.snapshots.begin_pass(rows.length, count, wanted)

    def after_pass(self, rows: Any) -> None:
        """Have the live states behind all tokens."""
        self.snapshots.live = rows.length

    def copied(self, other: StateRule, length: int) -> None:
        """Keep the states that the other rule keeps of its first `length` tokens."""
        self.snapshots.copy_places(place for place in other.snapshots.places if place <= length)
        self.snapshots.live = length
        if self._numbers is not None:
            for place in self.snapshots.places:
                self._numbers[1 + self.snapshots.slot(place)] = other.after(place)[0, 0, 0]
            self._numbers[0] = other.after(length)[0, 0, 0]

    def take_in(self, arena: Any, numbers: list[Any], count: int) -> list[Any]:
        """Keep the states that come last, if any do; the live ones are then nowhere, until a truncation."""
        *others, states = numbers
        self.snapshots.truncate(arena.length)
        if states.shape[2]:
            self._numbers[1 + self.snapshots.keep(arena.length + count)] = states[0, 0, 0]
        return others

    def with_own(self, numbers: list[Any], end: int) -> list[Any]:
        """Return arrays with the states after `end` tokens behind them."""
        return [*numbers, self.after(end)]

    def saved(self, unit: int) -> frozenset[int]:
        """Return the places whose states are worth saving."""
        return self.snapshots.saved(unit)

    def after(self, length: int) -> Any:
        """Return the states after `length` tokens, [1, 1, 1, numbers], or none if they are not kept."""
        row = 0 if length == self.snapshots.live else None
        if length in self.snapshots.places:
            row = 1 + self.snapshots.slot(length)
        return self._numbers[:0][None, None] if row is None else self._numbers[row : row + 1][None, None]
