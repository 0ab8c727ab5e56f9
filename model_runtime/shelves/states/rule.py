"""The rule of layers that have a state: computing goes on where one is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from model_runtime.row_rules import KeptState, RowRule
from model_runtime.shelves.states.snapshots import Snapshots


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
