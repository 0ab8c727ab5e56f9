"""Rows against a plain list of them, each with its quality and whether an answer needed it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from model_runtime.kv.sequence import Quality, Rows

shares = st.floats(0, 1)
counts = st.integers(0, 6)
qualities = st.sampled_from(Quality)


@dataclass(eq=False)
class Row:
    """How good a row's own numbers are, and whether it was computed ahead and nobody needed it since."""

    made: Quality
    unneeded: bool = False


@dataclass(eq=False)
class Listed:
    """Rows, and what they should say."""

    rows: Rows = field(default_factory=Rows)
    held: list[Row] = field(default_factory=list)
    sees_from: int = 0
    seen: Quality = Quality.EXACT
    wasted: int = 0

    def place(self, share: float) -> int:
        return round(share * len(self.held))

    def qualities(self, length: int) -> list[Quality]:
        """The quality of each of the first rows, held or to come: the worst that it rests on."""
        said, worst = list[Quality](), Quality.EXACT
        for place in range(length):
            worst = min(worst, self.held[place].made) if place < len(self.held) else worst
            worst = min(worst, self.seen) if place >= self.sees_from else worst
            said.append(worst)
        return said

    def drop(self, length: int) -> None:
        self.wasted += sum(row.unneeded for row in self.held[length:])
        del self.held[length:]

    def settle(self) -> None:
        """Let rows that are marked, or see what is not exact, stay as bad when what they rest on becomes better."""
        for row, quality in zip(self.held, self.qualities(len(self.held)), strict=True):
            row.made = quality

    def check(self) -> None:
        rows, held = self.rows, self.held
        assert (rows.length, rows.wasted, rows.seen) == (len(held), self.wasted, self.seen)
        for length in range(len(held) + 4):
            said = self.qualities(length)
            for quality in Quality:
                first = next((place for place, each in enumerate(said) if each < quality), length)
                assert rows.first_below(quality, length) == first
                assert length != len(held) or rows.first_below(quality) == first
            if length <= len(held):
                assert rows.worst(length) == min(said, default=Quality.EXACT)
                assert rows.ahead(length) == sum(row.unneeded for row in held[:length])


class TwoListed(RuleBasedStateMachine):
    """Rows that are worked on, and others that become copies."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Listed(), Listed()

    @rule(count=counts, quality=qualities)
    def append(self, count: int, quality: Quality) -> None:
        self.one.rows.append(count, quality)
        self.one.held += [Row(quality) for _ in range(count)]
        self.one.settle()

    @rule(count=counts, share=st.just(1.0) | shares)
    def compute_ahead(self, count: int, share: float) -> None:
        self.append(count, Quality.EXACT)
        start = self.one.place(share)
        self.one.rows.mark_unneeded(start)
        for row in self.one.held[start:]:
            row.unneeded = True

    @rule(count=counts)
    def compute_only_new_rows_ahead(self, count: int) -> None:
        start = len(self.one.held)
        self.append(count, Quality.EXACT)
        self.one.rows.mark_unneeded(start)
        for row in self.one.held[start:]:
            row.unneeded = True

    @rule(share=shares, quality=qualities)
    def lower(self, share: float, quality: Quality) -> None:
        start = self.one.place(share)
        self.one.rows.lower(start, quality)
        for row in self.one.held[start:]:
            row.made = min(row.made, quality)

    @rule(first=shares, last=shares)
    def renew(self, first: float, last: float) -> None:
        start, end = sorted((self.one.place(first), self.one.place(last)))
        self.one.rows.renew(start, end)
        for row in self.one.held[start:end]:
            row.made = Quality.EXACT
        self.one.settle()

    @rule(share=shares, beyond=counts, quality=qualities)
    def see(self, share: float, beyond: int, quality: Quality) -> None:
        one, start = self.one, self.one.place(share) + beyond
        one.rows.see(start, quality)
        one.sees_from, one.seen = start, quality
        one.settle()

    @rule(share=shares)
    def truncate(self, share: float) -> None:
        length = self.one.place(share)
        self.one.rows.truncate(length)
        self.one.drop(length)

    @rule(share=shares)
    def need(self, share: float) -> None:
        length = self.one.place(share)
        self.one.rows.mark_needed(length)
        for row in self.one.held[:length]:
            row.unneeded = False

    @rule(share=shares)
    def copy(self, share: float) -> None:
        length = self.one.place(share)
        self.other.rows.copy_prefix(self.one.rows, length)
        self.other.drop(0)
        for row in self.one.held[:length]:
            row.unneeded = False
        self.other.held += [Row(quality) for quality in self.one.qualities(length)]
        self.other.settle()

    @rule()
    def exchange(self) -> None:
        self.one, self.other = self.other, self.one

    @invariant()
    def says_what_it_should(self) -> None:
        self.one.check()
        self.other.check()


TwoListed.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
TestTwoListed = TwoListed.TestCase


def test_an_exact_row_is_better_than_a_lossy_one_and_that_than_a_composed_one() -> None:
    assert Quality.EXACT > Quality.LOSSY > Quality.BORROWED


@pytest.mark.parametrize(("end", "composed"), [(4, 4), (6, 6)])
def test_rows_that_are_computed_again_after_lossy_ones_are_lossy(end: int, composed: int) -> None:
    rows = Rows()
    for quality in reversed(Quality):
        rows.append(2, quality)
    rows.renew(4, end)
    assert (rows.first_below(Quality.EXACT), rows.first_below(Quality.LOSSY)) == (2, composed)


def test_work_ahead_in_many_small_steps_is_one_run() -> None:
    rows = Rows()
    for start in range(500):
        rows.append(1)
        rows.mark_unneeded(start)
    assert rows._unneeded == [range(500)]
