"""A row of tokens against a list of them, each of which remembers whether anyone needed it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.sequence import Quality, TokenSequence
from model_runtime.sequence_key import SequenceKey, texts_apart

CAPACITY = 24
tokens = st.lists(st.integers(0, 2), min_size=1, max_size=9)
shares = st.floats(0, 1)


def ids(*tokens: int) -> Ids:
    return np.array(tokens, dtype=np.int32)


def key(*tokens: int) -> SequenceKey:
    return SequenceKey(ids(*tokens))


@dataclass(eq=False)
class Computed:
    """A token, and whether it was computed ahead and nobody needed it since."""

    token: int
    unneeded: bool = False


@dataclass(eq=False)
class Row:
    """A sequence, and what it should say."""

    sequence: TokenSequence = field(default_factory=lambda: TokenSequence(CAPACITY))
    held: list[Computed] = field(default_factory=list)
    known: int = -1
    wasted: int = 0

    @property
    def tokens(self) -> list[int]:
        return [each.token for each in self.held]

    def place(self, share: float) -> int:
        return round(share * len(self.held))

    def drop(self, length: int) -> None:
        self.wasted += sum(each.unneeded for each in self.held[length:])
        del self.held[length:]
        self.known = self.known if self.known <= length else -1

    def check(self) -> None:
        assert self.sequence.ids.tolist() == self.tokens
        assert self.sequence.length == len(self.held) <= self.sequence.capacity == CAPACITY
        assert self.sequence.logits_at == self.known <= self.sequence.length
        assert self.sequence.rows.wasted == self.wasted


class TwoRows(RuleBasedStateMachine):
    """One row that is worked on, and another."""

    def __init__(self) -> None:
        super().__init__()
        self.row, self.other = Row(), Row()

    @rule(tokens=tokens)
    def append(self, tokens: list[int]) -> None:
        tokens = tokens[: CAPACITY - len(self.row.held)]
        self.row.sequence.append(ids(*tokens))
        self.row.held += map(Computed, tokens)

    @rule(tokens=tokens)
    def compute_ahead(self, tokens: list[int]) -> None:
        start = len(self.row.held)
        self.append(tokens)
        self.row.sequence.rows.mark_unneeded(start)
        for each in self.row.held[start:]:
            each.unneeded = True

    @rule(share=shares)
    def truncate(self, share: float) -> None:
        length = self.row.place(share)
        self.row.sequence.truncate(length)
        self.row.drop(length)

    @rule(share=shares, tokens=tokens)
    def overwrite(self, share: float, tokens: list[int]) -> None:
        self.truncate(share)
        self.append(tokens)

    @rule(share=shares)
    def need(self, share: float) -> None:
        length = self.row.place(share)
        self.row.sequence.rows.mark_needed(length)
        for each in self.row.held[:length]:
            each.unneeded = False

    @rule()
    def keep_what_follows(self) -> None:
        self.row.sequence.logits_at = self.row.known = len(self.row.held)

    @rule(share=shares)
    def copy(self, share: float) -> None:
        length = self.row.place(share)
        self.other.sequence.copy_prefix(self.row.sequence, length)
        self.other.drop(0)
        for each in self.row.held[:length]:
            each.unneeded = False
        self.other.held += map(Computed, self.row.tokens[:length])

    @rule()
    def exchange(self) -> None:
        self.row, self.other = self.other, self.row

    @rule(share=shares, tokens=tokens)
    def compare(self, share: float, tokens: list[int]) -> None:
        prompt = [*self.row.tokens[: self.row.place(share)], *tokens]
        self.check_reuse(prompt)
        self.check_reuse(prompt[: -len(tokens)] or tokens)

    def check_reuse(self, prompt: list[int]) -> None:
        common = longest_common(prompt, self.row.tokens)
        assert self.row.sequence.common(key(*prompt)) == common
        known = common == len(prompt) == self.row.known
        assert self.row.sequence.reusable(key(*prompt)) == (common if known else min(common, len(prompt) - 1))

    @invariant()
    def says_what_it_should(self) -> None:
        self.row.check()
        self.other.check()


def longest_common(a: list[int], b: list[int]) -> int:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


TwoRows.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
TestTwoRows = TwoRows.TestCase


def ahead(*tokens: int) -> TokenSequence:
    """A sequence whose tokens were all computed ahead of need."""
    sequence = TokenSequence(CAPACITY)
    sequence.append(ids(*tokens))
    sequence.rows.mark_unneeded(0)
    return sequence


def test_common_prefix_is_the_number_of_equal_tokens_at_the_start() -> None:
    for a, b, expected in (([], [], 0), ([1], [], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 5, 3], 1)):
        assert common_prefix(ids(*a), ids(*b)) == common_prefix(ids(*b), ids(*a)) == expected


def test_what_was_computed_ahead_and_given_up_is_wasted_once() -> None:
    sequence = ahead(1, 2, 3, 4)
    sequence.truncate(2)
    assert sequence.rows.wasted == 2
    sequence.append(ids(5, 6))
    sequence.truncate(2)
    assert sequence.rows.wasted == 2


def test_what_an_answer_needed_is_never_wasted() -> None:
    sequence = ahead(1, 2, 3, 4)
    sequence.rows.mark_needed(3)
    assert sequence.rows.wasted == 0
    sequence.truncate(0)
    assert sequence.rows.wasted == 1


def test_a_copy_needs_what_it_copies_and_wastes_what_it_overwrites() -> None:
    source, target = ahead(1, 2, 3), ahead(7, 8)
    target.copy_prefix(source, 2)
    assert (source.rows.wasted, target.rows.wasted) == (0, 2)
    source.truncate(0)
    target.truncate(0)
    assert (source.rows.wasted, target.rows.wasted) == (1, 2)


@pytest.mark.parametrize(("known", "reusable"), [(3, 3), (2, 2), (-1, 2)])
def test_a_whole_prompt_needs_its_last_token_again_unless_what_follows_is_known(known: int, reusable: int) -> None:
    sequence = TokenSequence(CAPACITY)
    sequence.append(ids(1, 2, 3))
    sequence.logits_at = known
    assert sequence.reusable(key(1, 2, 3)) == reusable


def test_more_tokens_than_there_is_room_for_are_an_error_not_a_growth() -> None:
    sequence = TokenSequence(3)
    sequence.append(ids(1, 2))
    with pytest.raises(AssertionError):
        sequence.append(ids(3, 4))
    assert sequence.ids.tolist() == [1, 2]


def restored(*tokens: int, exact: int) -> TokenSequence:
    """A sequence of which the first tokens are exact, and the others came from a lossy store."""
    sequence = TokenSequence(CAPACITY)
    sequence.append(ids(*tokens))
    sequence.rows.lower(exact, Quality.LOSSY)
    return sequence


@pytest.mark.parametrize(("length", "approximate"), [(0, 0), (2, 0), (3, 3)])
def test_tokens_are_exact_again_once_the_approximate_ones_are_cut_off(length: int, approximate: int) -> None:
    sequence = restored(1, 2, 3, 4, exact=2)
    assert sequence.approximate(4) == 2
    sequence.truncate(length)
    sequence.append(ids(5, 6))
    assert sequence.approximate(sequence.length) == approximate


@pytest.mark.parametrize(("length", "approximate"), [(2, 0), (3, 1)])
def test_a_copy_of_exact_tokens_is_exact(length: int, approximate: int) -> None:
    target = TokenSequence(CAPACITY)
    target.copy_prefix(restored(1, 2, 3, 4, exact=2), length)
    assert target.approximate(length) == approximate
    target.append(ids(7))
    assert target.approximate(length + 1) == (approximate and approximate + 1)


def test_tokens_that_see_other_excerpts_are_not_in_common() -> None:
    mine, others = (texts_apart([ids(each)], before_excerpts=2) for each in (5, 6))
    sequence = TokenSequence(CAPACITY, excerpt_rows=64)
    sequence.enter(mine)
    sequence.append(ids(1, 2, 3))
    same = texts_apart([ids(5)], before_excerpts=2)
    assert [sequence.common(SequenceKey(ids(1, 2, 3), each)) for each in (mine, same, others)] == [3, 3, 2]
    assert sequence.common(key(1, 2, 3)) == 2, "none are others, too"
