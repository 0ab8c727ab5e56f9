"""Counts of the document's own next tokens, against loops that say the same the long way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.ids import Ids
from model_runtime.local_cache import HALF_LIFE, LONGEST_MATCH, SHARES, longest_match, mix

VOCAB = 5
unhurried = settings(deadline=None, max_examples=200)
tokens = st.one_of(st.integers(0, VOCAB - 1), st.integers(0, 1), st.integers(-1, VOCAB - 1))
histories = st.one_of(
    st.lists(tokens, max_size=40),
    st.tuples(st.lists(tokens, max_size=6), st.integers(1, 8)).map(lambda pair: pair[0] * pair[1]),
)
weights = st.lists(st.integers(1, 1000), min_size=VOCAB, max_size=VOCAB)


def ids(*tokens: int) -> Ids:
    return np.array(tokens, dtype=np.int32)


def distribution(parts: list[int]) -> npt.NDArray[np.float32]:
    return (np.array(parts) / sum(parts)).astype(np.float32)


def reference_match(history: list[int]) -> tuple[int, list[int]]:
    """The longest end of the history that stands in it earlier, and the index of its last token each time."""
    for length in range(min(LONGEST_MATCH, len(history)), 0, -1):
        end = history[-length:]
        places = [i for i in range(length - 1, len(history) - 1) if history[i - length + 1 : i + 1] == end]
        if min(end) >= 0 and places:
            return length, places
    return 0, list(range(len(history) - 1))


def reference_mix(probabilities: list[float], history: list[int]) -> list[float]:
    length, places = reference_match(history)
    counts = [0.0] * len(probabilities)
    for place in places:
        if history[place + 1] >= 0:
            counts[history[place + 1]] += 0.5 ** ((len(history) - place) / HALF_LIFE)
    if not any(counts):
        return probabilities
    share = SHARES[length]
    return [(1 - share) * p + share * c / sum(counts) for p, c in zip(probabilities, counts, strict=True)]


@unhurried
@given(histories)
@example([])
@example([1])
@example([2, 2, 2])
@example([1, 2, -1, 1, 2])
@example([0, 1] * 20)
def test_the_longest_match_is_the_references(history: list[int]) -> None:
    length, places = longest_match(ids(*history))
    assert (length, places.tolist()) == reference_match(history)


@unhurried
@given(weights, histories)
@example([1] * VOCAB, [1, -1, 1])
def test_the_mixture_is_the_references(parts: list[int], history: list[int]) -> None:
    mixed = mix(distribution(parts), ids(*history))
    assert mixed.dtype == np.float32
    expected = reference_mix(distribution(parts).tolist(), history)
    np.testing.assert_allclose(mixed, expected, rtol=1e-4, atol=1e-6)


@unhurried
@given(weights, histories)
def test_a_mixture_of_a_distribution_is_a_distribution(parts: list[int], history: list[int]) -> None:
    mixed = mix(distribution(parts), ids(*history))
    assert mixed.min() >= 0
    assert mixed.sum() == pytest.approx(1, abs=1e-5)


@unhurried
@given(weights, histories)
def test_mixing_is_pure(parts: list[int], history: list[int]) -> None:
    probabilities, past = distribution(parts), ids(*history)
    first = mix(probabilities, past).copy()
    assert (probabilities == distribution(parts)).all()
    assert (past == ids(*history)).all()
    assert (mix(probabilities, past) == first).all()


@unhurried
@given(st.lists(st.integers(0, VOCAB - 1), max_size=15), st.lists(st.integers(0, VOCAB - 1), max_size=15))
def test_a_break_is_neither_matched_nor_predicted(tail: list[int], head: list[int]) -> None:
    history = [*tail, -1, *head]
    length, places = longest_match(ids(*history))
    assert length <= len(head)
    for place in places.tolist():
        assert -1 not in history[place - length + 1 : place + 1]
    nothing = np.zeros(VOCAB + 1, dtype=np.float32)
    assert mix(nothing, ids(*history))[-1] == 0


def test_what_followed_the_match_is_made_likelier() -> None:
    mixed = mix(distribution([1, 1, 1, 1, 1]), ids(3, 1, 2, 4, 0, 1, 2))
    assert mixed.argmax() == 4
    assert mixed[4] == pytest.approx((1 - SHARES[2]) / 5 + SHARES[2], abs=1e-6)


def test_a_match_counts_up_to_twelve_tokens() -> None:
    assert longest_match(ids(*range(20), *range(20)))[0] == 12
    assert longest_match(ids(*range(11), *range(11)))[0] == 11


def test_a_later_occurrence_counts_more() -> None:
    mixed = mix(np.zeros(VOCAB, dtype=np.float32), ids(1, 2, 4, 1, 3, 0, 1))
    assert mixed[3] > mixed[2] > 0


def test_shares_grow_with_the_match_and_leave_room_for_the_model() -> None:
    assert list(SHARES) == sorted(SHARES)
    assert SHARES[0] > 0 and SHARES[-1] < 1
