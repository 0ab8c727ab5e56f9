"""Where states are kept: never too many, always where computing can go on, dense near the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from model_runtime.kv.sequence import TokenSequence
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.states.rule import GRID, Snapshots, StateRule

CAPACITY = 4096


def keeping(most: int) -> TokenSequence:
    """A sequence whose states are kept at so many places."""
    return TokenSequence(CAPACITY, rules=(StateRule(most),))


def snapshots_of(sequence: TokenSequence) -> Snapshots:
    [rule] = sequence.rules
    assert isinstance(rule, StateRule)
    return rule.snapshots


class Kept(RuleBasedStateMachine):
    """A sequence that remembers, for each place whose states are kept, which tokens they are of."""

    @initialize(most=st.integers(1, 8))
    def start(self, most: int) -> None:
        self.most = most
        self.sequence = keeping(most)
        self.contents: dict[int, bytes] = {}  # by slot, the tokens whose states it holds
        self.live = b""

    @property
    def snapshots(self) -> Snapshots:
        return snapshots_of(self.sequence)

    @rule(count=st.integers(1, 300), rows=st.integers(1, 9), token=st.integers(0, 2))
    def compute(self, count: int, rows: int, token: int) -> None:
        count = min(count, CAPACITY - self.sequence.length)
        if not count:
            return
        ids, before = np.full(count, token, np.int32), self.sequence.ids.copy()
        for kept in self.sequence.begin_pass(count, min(rows, count)):
            self.contents[kept.slot] = np.concatenate((before, ids[: kept.tokens])).tobytes()
        self.sequence.end_pass(ids, None)
        self.live = self.sequence.ids.tobytes()

    @rule(share=st.floats(0, 1))
    def cut(self, share: float) -> None:
        length = int(share * self.sequence.length)
        wanted = self.sequence.ids[:length].tobytes()
        expected = self.sequence.resumes_at(length)
        resumed = self.sequence.truncate(length)
        assert resumed == expected == self.sequence.length <= length
        assert self.sequence.ids.tobytes() == wanted[: self.sequence.ids.nbytes]
        if resumed and self.live != self.sequence.ids.tobytes():
            self.live = self.contents[self.snapshots.slot(resumed)]
        elif not resumed:
            self.live = b""

    @rule(places=st.lists(st.integers(1, CAPACITY), max_size=3))
    def mark(self, places: list[int]) -> None:
        self.sequence.mark(places)

    @invariant()
    def the_live_states_are_of_all_tokens(self) -> None:
        if hasattr(self, "sequence"):
            assert self.live == self.sequence.ids.tobytes()
            assert self.snapshots.live == self.sequence.length

    @invariant()
    def each_slot_holds_the_states_of_its_place(self) -> None:
        if hasattr(self, "sequence"):
            places = self.snapshots.places
            assert len(places) <= self.most and all(0 < place <= self.sequence.length for place in places)
            assert len({self.snapshots.slot(place) for place in places}) == len(places)
            for place in places:
                assert self.contents[self.snapshots.slot(place)] == self.sequence.ids[:place].tobytes()


Kept.TestCase.settings = settings(max_examples=80, stateful_step_count=30)
test_what_is_kept = Kept.TestCase


def typed(most: int, head: int, keys: int, marks: tuple[int, ...] = ()) -> TokenSequence:
    """A sequence that grew by one token a pass after its head, as someone types."""
    sequence = keeping(most)
    sequence.mark(marks)
    sequence.begin_pass(head, 1)
    sequence.end_pass(np.zeros(head, np.int32), None)
    for length in range(head + 1, head + keys + 1):
        sequence.mark((*marks, length))
        sequence.begin_pass(1, 1)
        sequence.end_pass(np.zeros(1, np.int32), None)
    return sequence


@pytest.mark.parametrize("most", [8, 16, 64])
def test_going_back_a_little_costs_little(most: int) -> None:
    sequence = typed(most, 1500, 300)
    for back in (1, 3, 10, 30, 100):
        length = sequence.length - back
        assert length - sequence.resumes_at(length) <= max(GRID, 400 // most * back**0.5)


def test_marks_outlast_all_others() -> None:
    sequence = typed(4, 1500, 300, marks=(1000, 1400))
    assert sequence.resumes_at(1399) == 1000 and sequence.resumes_at(1450) == 1400


@given(length=st.integers(1, 1000), most=st.integers(17, 64))
def test_with_room_for_all_no_more_than_the_grid_is_computed_again(length: int, most: int) -> None:
    sequence = keeping(most)
    sequence.begin_pass(1024, 1)
    sequence.end_pass(np.zeros(1024, np.int32), None)
    assert length - sequence.resumes_at(length) == length % GRID


def test_before_a_draft_states_are_kept() -> None:
    sequence = keeping(4)
    sequence.begin_pass(20, rows=9)
    sequence.end_pass(np.arange(20, dtype=np.int32), None)
    assert sequence.resumes_at(19) == 12
    assert sequence.truncate(13) == 12


def test_a_pass_that_fails_leaves_what_was_kept_before() -> None:
    sequence = keeping(4)
    sequence.begin_pass(128, 1)
    sequence.end_pass(np.zeros(128, np.int32), None)
    sequence.begin_pass(64, 1)  # and no end
    assert sequence.truncate(sequence.length) == 128
    sequence.begin_pass(3, 1)
    sequence.end_pass(np.zeros(3, np.int32), None)
    assert sequence.length == 131


def test_a_copy_keeps_what_is_kept_of_its_prefix() -> None:
    source, copy = typed(8, 500, 20), keeping(8)
    length = source.kept(SequenceKey(source.ids[:450]))
    copy.copy_prefix(source, length)
    kept = snapshots_of(copy).places
    assert kept == [place for place in snapshots_of(source).places if place <= length]
    assert copy.resumes_at(length) == length == copy.length
