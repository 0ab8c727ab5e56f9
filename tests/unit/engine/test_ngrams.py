"""Counts of the user's own next tokens, against loops that say the same the long way."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.counts import lookup
from model_runtime.counts.segment import CountedDocument
from model_runtime.counts.snapshot import EMPTY, Counts
from model_runtime.engine.ngrams import NGRAMS_FILE, Ngrams, matches, read_ngrams
from model_runtime.errors import ModelError
from model_runtime.ids import Ids

VOCAB = 5
CACHE = Ngrams((0.2, 0.3, 0.1, 0.0, 0.6), half_life=3.0)
unhurried = settings(max_examples=80)
tokens = st.one_of(st.integers(0, VOCAB - 1), st.integers(0, 1), st.integers(-1, VOCAB - 1))
histories = st.one_of(
    st.lists(tokens, max_size=40),
    st.tuples(st.lists(tokens, max_size=6), st.integers(1, 8)).map(lambda pair: pair[0] * pair[1]),
)
weights = st.lists(st.integers(1, 1000), min_size=VOCAB, max_size=VOCAB)
caches = st.builds(Ngrams, st.lists(st.floats(0, 1), min_size=1, max_size=8).map(tuple), half_life=st.floats(1, 1e6))


def ids(*tokens: int) -> Ids:
    return np.array(tokens, dtype=np.int32)


def distribution(parts: list[int]) -> npt.NDArray[np.float32]:
    return (np.array(parts) / sum(parts)).astype(np.float32)


def even() -> npt.NDArray[np.float32]:
    return distribution([1] * VOCAB)


def reference_matches(history: list[int], length: int) -> list[int]:
    """Where the last so many tokens of the history stood before and a token followed."""
    end = history[-length:]
    if len(history) < length or min(end) < 0:
        return []
    places = range(length - 1, len(history) - 1)
    return [i for i in places if history[i - length + 1 : i + 1] == end and history[i + 1] >= 0]


def counts_of(*texts: list[int]) -> Counts:
    named = [CountedDocument(str(n), str(n).encode(), ids(*text)) for n, text in enumerate(texts)]
    return EMPTY.with_changes((), named)


def reference_mix(
    cache: Ngrams, probabilities: list[float], history: list[int], texts: Sequence[list[int]] = ()
) -> list[float]:
    """One length of match after the other takes its share of what there was, first the memory's."""
    mixed = probabilities
    apart = [token for text in texts for token in (*text, -1)]
    for length in range(1, 17):
        share = cache.memory_shares[length - 1] if length <= len(cache.memory_shares) else 0.0
        counts = [0.0] * len(probabilities)
        for place in reference_matches([*apart, *history], length):
            if place < len(apart) and length >= 3:
                counts[[*apart, *history][place + 1]] += 1
        if any(counts):
            mixed = [(1 - share) * p + share * c / sum(counts) for p, c in zip(mixed, counts, strict=True)]
        share = cache.shares[length - 1] if length <= len(cache.shares) else 0.0
        counts = [0.0] * len(probabilities)
        for place in reference_matches(history, length):
            counts[history[place + 1]] += 0.5 ** min((len(history) - place) / cache.half_life, 64)
        if any(counts):
            mixed = [(1 - share) * p + share * c / sum(counts) for p, c in zip(mixed, counts, strict=True)]
    return mixed


@unhurried
@given(histories, st.integers(1, 6))
@example([], 3)
@example([1], 3)
@example([2, 2, 2], 3)
@example([1, 2, -1, 1, 2], 3)
@example([0, 1] * 20, 3)
@example([1, 3, 2, 1], 3)
def test_the_matches_are_the_references(history: list[int], most: int) -> None:
    places, lengths = matches(ids(*history), most)
    for length in range(1, most + 1):
        assert places[lengths >= length].tolist() == reference_matches(history, length)
    assert not len(lengths) or lengths.max() <= most


@unhurried
@given(caches, weights, histories)
@example(CACHE, [1] * VOCAB, [1, -1, 1])
@example(CACHE, [1] * VOCAB, [0, 1, 2] * 5)
def test_the_mixture_is_the_references(cache: Ngrams, parts: list[int], history: list[int]) -> None:
    mixed = cache.mix(distribution(parts), ids(*history))
    assert mixed.dtype == np.float32
    expected = reference_mix(cache, distribution(parts).tolist(), history)
    np.testing.assert_allclose(mixed, expected, rtol=1e-4, atol=1e-6)


@unhurried
@given(caches, weights, histories)
@example(Ngrams((1.0,), half_life=1.0), [1] * VOCAB, [1, 2, *[0] * 2000, 1])
def test_a_mixture_of_a_distribution_is_a_distribution(cache: Ngrams, parts: list[int], history: list[int]) -> None:
    mixed = cache.mix(distribution(parts), ids(*history))
    assert mixed.min() >= 0
    assert mixed.sum() == pytest.approx(1, abs=1e-5)


@unhurried
@given(weights, histories)
def test_mixing_is_pure(parts: list[int], history: list[int]) -> None:
    probabilities, past = distribution(parts), ids(*history)
    first = CACHE.mix(probabilities, past).copy()
    assert (probabilities == distribution(parts)).all()
    assert (past == ids(*history)).all()
    assert (CACHE.mix(probabilities, past) == first).all()


@unhurried
@given(st.lists(st.integers(0, VOCAB - 1), max_size=15), st.lists(st.integers(0, VOCAB - 1), max_size=15))
def test_a_break_is_neither_matched_nor_predicted(tail: list[int], head: list[int]) -> None:
    history = [*tail, -1, *head]
    places, lengths = matches(ids(*history), 12)
    for place, length in zip(places.tolist(), lengths.tolist(), strict=True):
        assert -1 not in history[place - length + 1 : place + 2]
    nothing = np.zeros(VOCAB + 1, dtype=np.float32)
    assert CACHE.mix(nothing, ids(*history))[-1] == 0


def test_what_followed_the_match_is_made_likelier() -> None:
    mixed = CACHE.mix(even(), ids(3, 1, 2, 4, 0, 1, 2))
    assert mixed.argmax() == 4
    assert mixed[4] == pytest.approx(1 - 0.8 * 0.7 * (1 - 1 / 5), abs=1e-6)


def test_a_longer_match_counts_more() -> None:
    mixed = CACHE.mix(even(), ids(1, 2, 4, 0, 2, 3, 1, 2))
    assert mixed[4] > mixed[3] > mixed[0]


def test_a_later_occurrence_counts_more() -> None:
    mixed = CACHE.mix(np.zeros(VOCAB, dtype=np.float32), ids(1, 2, 4, 1, 3, 0, 1))
    assert mixed[3] > mixed[2] > 0


@unhurried
@given(weights, histories)
def test_alone_the_model_says_nothing_where_there_are_counts(parts: list[int], history: list[int]) -> None:
    probabilities, past = distribution(parts), ids(*history)
    mixed = CACHE.without_model().mix(probabilities, past)
    followers = {history[place + 1] for place in reference_matches(history, 1)}
    assert set(np.flatnonzero(mixed).tolist()) == (followers or set(range(VOCAB)))


# With a memory

of_both = st.builds(
    Ngrams,
    st.lists(st.floats(0, 1), min_size=1, max_size=8).map(tuple),
    st.floats(1, 1e6),
    st.lists(st.floats(0, 1), max_size=16).map(tuple),
)
WITH_COUNTS = Ngrams((0.5, 0.2), half_life=1e6, memory_shares=(0.0, 0.0, 0.5, 0.25))


@unhurried
@given(of_both, weights, histories, st.lists(histories, max_size=3))
@example(WITH_COUNTS, [1] * VOCAB, [0, 1, 2], [[0, 1, 2, 3]])
@example(WITH_COUNTS, [1] * VOCAB, [0, 1, 2] * 3, [[0, 1, 2, 3], [2, 0, 1, 2, 4]])
def test_the_mixture_with_a_memory_is_the_references(
    cache: Ngrams, parts: list[int], history: list[int], texts: list[list[int]]
) -> None:
    mixed = cache.mix(distribution(parts), ids(*history), counts_of(*texts).without(()))
    assert mixed.dtype == np.float32
    assert mixed.sum() == pytest.approx(1, abs=1e-5)
    expected = reference_mix(cache, distribution(parts).tolist(), history, texts)
    np.testing.assert_allclose(mixed, expected, rtol=1e-4, atol=1e-6)


def test_a_small_mixture_with_a_memory_is_what_a_person_computes() -> None:
    # The history's own end stood before once, followed by 4. The memory says 3 after two tokens more than that
    # (a match of three) and 0 after a match of four.
    history, texts = ids(2, 4, 1, 0, 1, 2), [[0, 1, 2, 3], [1, 0, 1, 2, 0], [1, 2, 1]]
    made = WITH_COUNTS.mixture(even(), history, counts_of(*texts).without(()))
    of_one = 0.5 * 0.2 + np.array([0, 0, 0, 0, 0.5])  # matches of one token of the history itself take half
    of_three = 0.5 * of_one + np.array([0.25, 0, 0, 0.25, 0])  # of the memory's three or more, half: one of each
    of_four = 0.75 * of_three + np.array([0.25, 0, 0, 0, 0])  # and of its four, a quarter
    np.testing.assert_allclose(made.chances, of_four, rtol=1e-6)
    assert made.model == pytest.approx(0.75 * 0.5 * 0.5)
    assert dict(zip(made.tokens.tolist(), made.gains.tolist(), strict=True)) == pytest.approx(
        {3: 0.75 * 0.25, 0: 0.75 * 0.25 + 0.25}
    )


@unhurried
@given(weights, histories)
def test_a_memory_that_holds_nothing_changes_no_bit(parts: list[int], history: list[int]) -> None:
    without = WITH_COUNTS.mix(distribution(parts), ids(*history))
    assert (WITH_COUNTS.mix(distribution(parts), ids(*history), EMPTY.without(())) == without).all()


def test_lengths_with_too_many_matches_take_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_PLACES", 2)
    view = counts_of([0, 1, 2, 3], [0, 1, 2, 3], [1, 0, 1, 2, 4]).without(())
    made = WITH_COUNTS.mixture(even(), ids(1, 0, 1, 2), view)
    np.testing.assert_allclose(made.chances, 0.75 * even() + np.array([0, 0, 0, 0, 0.25]), rtol=1e-6)


def test_without_shares_for_it_a_memory_says_nothing() -> None:
    view = counts_of([0, 1, 2, 3] * 3).without(())
    assert (CACHE.mix(even(), ids(0, 1, 2), view) == even()).all()


# In the model's folder


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / NGRAMS_FILE).write_text(CACHE.to_json())
    other = Ngrams((0.5,), half_life=2000.0, memory_shares=(0.0, 0.0, 0.25))
    (tmp_path / NGRAMS_FILE).write_text(other.to_json())
    assert read_ngrams(tmp_path) == other
    assert [path.name for path in tmp_path.iterdir()] == [NGRAMS_FILE]


def test_a_folder_may_have_none(tmp_path: Path) -> None:
    assert read_ngrams(tmp_path) is None


def test_the_embedded_model_has_one() -> None:
    assert isinstance(read_ngrams(EMBEDDED), Ngrams)


GOOD = {"shares": [0.5, 0.1], "half_life": 100}
DAMAGED = {
    "no JSON": "{",
    "no UTF-8": b"\xff\xfe",
    "a list": "[]",
    "deep": "[" * 100_000,
    "null": "null",
    **{
        f"{name} is {value!r}": json.dumps({**GOOD, name: value})
        for name, value in [
            ("shares", []),
            ("shares", None),
            ("shares", 0.5),
            ("shares", [0.5, 1.1]),
            ("shares", [-0.1]),
            ("shares", [float("nan")]),
            ("shares", ["0.5"]),
            ("shares", [True]),
            ("shares", [0.1] * 65),
            ("memory_shares", [1.1]),
            ("memory_shares", None),
            ("memory_shares", [0.1] * 65),
            ("half_life", 0),
            ("half_life", -5.0),
            ("half_life", float("nan")),
            ("half_life", float("inf")),
            ("half_life", 10**400),
            ("half_life", None),
            ("half_life", "500"),
        ]
    },
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=[name[:40] for name in DAMAGED])
def test_a_damaged_file_is_refused_with_a_remedy(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / NGRAMS_FILE).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelError, match=re.escape(str(tmp_path / NGRAMS_FILE)) + ".*: fetch the model again"):
        read_ngrams(tmp_path)


def test_whole_numbers_are_numbers(tmp_path: Path) -> None:
    (tmp_path / NGRAMS_FILE).write_text(json.dumps({"shares": [0, 1], "half_life": 100}))
    assert read_ngrams(tmp_path) == Ngrams((0.0, 1.0), 100.0)
