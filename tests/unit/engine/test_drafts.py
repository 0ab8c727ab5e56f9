"""Guesses at what comes next: where they are found, how far they go, what is learnt from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.counts.segment import CountedDocument
from model_runtime.counts.snapshot import EMPTY
from model_runtime.engine.drafts import (
    EXPECTED,
    FROM_COUNTS,
    HIT_RATE_DECAY,
    INITIAL_HIT_RATE,
    LONGEST_DRAFT,
    LONGEST_MATCH,
    NO_DRAFT,
    Drafts,
    PassCosts,
    advance,
    lookup,
)
from model_runtime.ids import Ids

unhurried = settings(max_examples=80)
tokens = st.one_of(st.integers(0, 1), st.integers(0, 4), st.integers(-1, 4))
histories = st.one_of(
    st.lists(tokens, max_size=50),
    st.tuples(st.lists(tokens, max_size=12), st.integers(1, 6)).map(lambda pair: pair[0] * pair[1]),
)


def ids(*tokens: int) -> Ids:
    return np.array(tokens, dtype=np.int32)


class Asked(PassCosts):
    """A costs that finds a given number of tokens worth drafting, and keeps what it was asked."""

    def __init__(self, *worth: int) -> None:
        super().__init__()
        self._worth = list(worth)
        self.chances: list[float] = []

    def best_draft_length(self, chance: float, most: int) -> int:
        self.chances.append(chance)
        return min(self._worth.pop(0) if self._worth else most, most)


def reference_lookup(history: list[int]) -> tuple[list[int], int]:
    """The longest match first, of equally long ones the nearest."""
    for length in range(min(LONGEST_MATCH, len(history) - 1), 0, -1):
        end = history[-length:]
        for at in range(len(history) - length - 1, -1, -1):
            following = history[at + length : at + length + LONGEST_DRAFT]
            if min(end) >= 0 and history[at : at + length] == end and following[0] >= 0:
                stop = following.index(-1) if -1 in following else len(following)
                return following[:stop], length
    return [], 0


@unhurried
@given(histories)
@example([1] * 30)
@example([*range(40), 0])
@example([1, 2, -1, 1])
@example([1, -1, 1])
@example([3, 1, 2, 0, 1, 2, 4, 3, 1, 2])
def test_a_lookup_finds_the_longest_then_nearest_match_and_stops_at_breaks(history: list[int]) -> None:
    found, length = lookup(ids(*history))
    assert (found.tolist(), length) == reference_lookup(history)
    assert len(found) <= LONGEST_DRAFT


def test_longer_matches_are_no_better() -> None:
    words = list(range(LONGEST_MATCH + 4))
    assert lookup(ids(*words, 90, *words[2:], 91, *words))[1] == LONGEST_MATCH
    assert lookup(ids(*words, 90, *words[2:], 91, *words))[0][0] == 91


@unhurried
@given(expected=st.lists(st.integers(0, 4), max_size=12), data=st.data())
def test_after_a_token_that_was_expected_the_rest_of_the_text_is(expected: list[int], data: st.DataObject) -> None:
    """Where several tokens of the text are this one, it is the first of them."""
    token = data.draw(st.sampled_from(expected)) if expected else 0
    at = expected.index(token) if expected else 0
    assert advance(ids(*expected), token).tolist() == expected[at + 1 :]


@unhurried
@given(expected=st.lists(st.integers(0, 4), max_size=12))
def test_after_another_token_the_text_is_expected_one_further_on(expected: list[int]) -> None:
    assert advance(ids(*expected), 9).tolist() == expected[1:]


def test_an_expected_text_is_proposed_before_a_match() -> None:
    draft, kind = Drafts().propose(ids(1, 2, 3, 1), ids(7, 8), Asked())
    assert (draft.tolist(), kind) == ([7, 8], LONGEST_MATCH + 1)


@pytest.mark.parametrize(("expected", "worth"), [([], [2]), ([7, 8], [0, 2])])
def test_a_match_is_proposed_where_nothing_is_expected_or_no_more_of_it_is_worth_drafting(
    expected: list[int], worth: list[int]
) -> None:
    draft, kind = Drafts().propose(ids(1, 2, 3, 1, 2), ids(*expected), Asked(*worth))
    assert (draft.tolist(), kind) == ([3, 1], 2)


def test_nothing_is_proposed_where_nothing_is_expected_and_nothing_matches() -> None:
    assert not len(Drafts().propose(ids(1, 2, 3), NO_DRAFT, Asked())[0])
    assert not len(Drafts().propose(NO_DRAFT, NO_DRAFT, Asked())[0])
    assert not len(Drafts().propose(ids(1, 2, 1), NO_DRAFT, Asked(0, 0))[0])


@pytest.mark.parametrize("worth", [1, 4, LONGEST_DRAFT, 99])
def test_a_draft_is_as_long_as_is_worth_it_and_never_longer_than_the_longest(worth: int) -> None:
    expected = ids(*range(40))
    draft, _ = Drafts().propose(NO_DRAFT, expected, Asked(worth))
    assert draft.tolist() == list(range(min(worth, LONGEST_DRAFT)))


def chance_of(drafts: Drafts, history: Ids, expected: Ids = NO_DRAFT) -> float:
    """What drafts take for the chance of what they would propose."""
    costs = Asked()
    drafts.propose(history, expected, costs)
    return costs.chances[-1]


@unhurried
@given(came_true=st.lists(st.booleans(), max_size=60))
def test_how_often_a_kind_comes_true_is_learnt_and_the_latest_counts_most(came_true: list[bool]) -> None:
    drafts, history = Drafts(), ids(1, 2, 3, 1, 2)
    for each in came_true:
        drafts.record(2, each)
    faded = [(1 - HIT_RATE_DECAY) * HIT_RATE_DECAY**age * each for age, each in enumerate(reversed(came_true))]
    expected = INITIAL_HIT_RATE * HIT_RATE_DECAY ** len(came_true) + sum(faded)
    assert chance_of(drafts, history) == pytest.approx(expected)
    assert 0 <= expected <= 1


@pytest.mark.parametrize("kind", [1, 2, LONGEST_MATCH, LONGEST_MATCH + 1])
def test_what_is_learnt_of_one_kind_says_nothing_of_the_others(kind: int) -> None:
    drafts, words = Drafts(), list(range(LONGEST_MATCH))
    for _ in range(50):
        drafts.record(kind, came_true=False)
    chances = {
        1: chance_of(drafts, ids(1, 2, 1)),
        2: chance_of(drafts, ids(1, 2, 3, 1, 2)),
        LONGEST_MATCH: chance_of(drafts, ids(*words, 90, *words)),
        LONGEST_MATCH + 1: chance_of(drafts, NO_DRAFT, ids(1)),
    }
    assert {each for each, chance in chances.items() if chance < 0.1} == {kind}
    assert {chance for each, chance in chances.items() if each != kind} == {INITIAL_HIT_RATE}


def test_guesses_that_never_come_true_are_given_up_and_those_that_do_grow() -> None:
    history, lengths = ids(1, 2, 3, 4, 5, 6, 7, 8, 1), list[int]()
    for came_true in (False, True):
        drafts = Drafts()
        for _ in range(30):
            drafts.record(1, came_true)
        lengths.append(len(drafts.propose(history, NO_DRAFT, PassCosts())[0]))
    assert lengths == [0, len(history) - 1]


# From the repository

REPOSITORY = EMPTY.with_changes((), [CountedDocument("/a", b"", ids(1, 2, 3, 4, 5, 6))]).without(())


def test_the_memory_is_asked_where_the_history_has_no_match() -> None:
    assert Drafts().propose(ids(1, 2, 3), NO_DRAFT, Asked())[0].tolist() == []
    draft, kind = Drafts().propose(ids(1, 2, 3), NO_DRAFT, Asked(), REPOSITORY)
    assert (draft.tolist(), kind) == ([4, 5, 6], FROM_COUNTS)
    draft, kind = Drafts().propose(ids(1, 2, 3), ids(7), Asked(), REPOSITORY)
    assert (draft.tolist(), kind) == ([7], EXPECTED)


def test_history_and_memory_are_learnt_apart_and_the_better_one_is_asked() -> None:
    drafts, history = Drafts(), ids(3, 9, 1, 2, 3)
    assert drafts.propose(history, NO_DRAFT, Asked(), REPOSITORY)[1] == 1
    drafts.record(1, False)
    draft, kind = drafts.propose(history, NO_DRAFT, Asked(), REPOSITORY)
    assert (draft.tolist(), kind) == ([4, 5, 6], FROM_COUNTS)
    for _ in range(3):
        drafts.record(FROM_COUNTS, False)
    assert drafts.propose(history, NO_DRAFT, Asked(), REPOSITORY)[1] == 1
    assert chance_of(drafts, ids(1, 2, 4, 1, 2)) == INITIAL_HIT_RATE, "other kinds learn nothing from it"
