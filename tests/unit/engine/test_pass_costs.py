"""What passes cost, on machines that were made up: a line over rows, and noise."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.cancel import Cancelled
from model_runtime.decoder.any_decoder import CHUNK
from model_runtime.engine import drafts
from model_runtime.engine.drafts import (
    DEFAULT_EXTRA_ROW_COST,
    LEAST_BACKGROUND_CHUNK,
    LEAST_CHUNK,
    PREFILL_PASS_MS,
    PassCosts,
)
from tests.waiting import Clock

SMALL = 4 * LEAST_BACKGROUND_CHUNK  # rows of the largest pass that tells what a further row costs
unhurried = settings(max_examples=80)
chances = st.floats(0, 1)
milliseconds = st.floats(0, 1e6)
noted = st.lists(st.tuples(st.integers(1, CHUNK + SMALL), milliseconds), max_size=30)


@pytest.fixture(scope="module", autouse=True)
def passes_take_the_same_time() -> None:
    """Here they are measured."""


def test_a_pass_is_measured_unless_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "perf_counter", clock := Clock())
    costs = PassCosts()
    with pytest.raises(Cancelled), costs.timing(8):
        raise Cancelled
    assert costs.row_seconds is None
    with costs.timing(8):
        clock.now += 0.004
    assert costs.row_seconds == pytest.approx(0.0005)


class Costing(PassCosts):
    """A costs on which one more row costs what it is told."""

    def __init__(self, extra_row_cost: float) -> None:
        super().__init__()
        self._cost = extra_row_cost

    @property
    def extra_row_cost(self) -> float:
        return self._cost


def tokens_for_the_time(chance: float, drafted: int, cost: float) -> float:
    """Tokens that a pass gives on average, one at least, for the time of a pass of one row."""
    return sum(chance**n for n in range(drafted + 1)) / (1 + drafted * cost)


@unhurried
@given(chance=chances, most=st.integers(0, 20), cost=st.floats(0, 3))
@example(chance=1.0, most=15, cost=0.0)
@example(chance=1.0, most=15, cost=1.0)
@example(chance=0.5, most=15, cost=0.1)
def test_a_draft_is_as_long_as_gives_most_tokens_for_the_time(chance: float, most: int, cost: float) -> None:
    worth = Costing(cost).best_draft_length(chance, most)
    best = max(tokens_for_the_time(chance, drafted, cost) for drafted in range(most + 1))
    assert 0 <= worth <= most
    assert math.isclose(tokens_for_the_time(chance, worth, cost), best, rel_tol=1e-9)
    assert all(tokens_for_the_time(chance, fewer, cost) < best for fewer in range(worth))


@pytest.mark.parametrize(
    ("chance", "cost", "worth"), [(0.0, 0.01, 0), (1.0, 0.01, 15), (0.5, 0.1, 2), (0.1, 0.1, 0), (1.0, 1.0, 0)]
)
def test_doubtful_or_dear_tokens_are_not_drafted_and_sure_ones_are(chance: float, cost: float, worth: int) -> None:
    assert Costing(cost).best_draft_length(chance, 15) == worth


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("further", [0.0, 0.05, 0.2, 1.0])
@pytest.mark.parametrize("one", [0.3, 25.0])
def test_what_a_further_row_costs_is_learnt_from_small_passes(one: float, further: float, noise: float) -> None:
    costs, generator = PassCosts(), random.Random(0)
    for _ in range(300):
        rows = generator.randint(1, 8)
        costs.record(rows, one * (1 + further * (rows - 1)) * (1 + noise * generator.uniform(-1, 1)))
    assert costs.extra_row_cost == pytest.approx(further, abs=1e-6 if not noise else 0.03)


def test_what_a_further_row_costs_follows_the_machine() -> None:
    costs = PassCosts()
    for further in (0.5, 0.1):
        for n in range(300):
            costs.record(1 + n % 8, 2.0 * (1 + further * (n % 8)))
        assert costs.extra_row_cost == pytest.approx(further, abs=1e-3)


def test_passes_of_one_size_do_not_tell_what_a_further_row_costs() -> None:
    costs = PassCosts()
    for _ in range(50):
        costs.record(1, 3.0)
    assert costs.extra_row_cost == DEFAULT_EXTRA_ROW_COST


def test_large_passes_do_not_tell_what_a_further_row_of_a_small_one_costs() -> None:
    costs = PassCosts()
    for rows in (1, 2, 4, 8) * 9:
        costs.record(rows, 1.0 + 0.25 * (rows - 1))
    before = costs.extra_row_cost
    costs.record(SMALL + 1, 1000.0)
    costs.record(CHUNK, 1.0)
    assert costs.extra_row_cost == before == pytest.approx(0.25)


@unhurried
@given(noted)
@example([(1, 0.0), (2, 0.0)])
@example([(1, 9.0), (2, 1.0)])
@example([(1, 0.0), (8, 9.0)])
def test_whatever_was_noted_a_further_row_costs_something_finite_and_drafts_have_a_length(
    passes: list[tuple[int, float]],
) -> None:
    costs = PassCosts()
    for rows, ms in passes:
        costs.record(rows, ms)
        assert 0 <= costs.extra_row_cost < math.inf
        assert 0 <= costs.best_draft_length(0.5, 15) <= 15


@unhurried
@given(small=noted, rows=st.integers(SMALL + 1, 2 * CHUNK), per_row=st.one_of(st.floats(0.2, 6), st.floats(0, 1e4)))
@example([], CHUNK, 0.0)
@example([], CHUNK, 5e-324)
@example([], CHUNK, 1e4)
@example([], SMALL + 1, 2.25)
def test_a_pass_ahead_of_need_is_as_long_as_a_keystroke_can_wait(
    small: list[tuple[int, float]], rows: int, per_row: float
) -> None:
    costs = PassCosts()
    for each in small:
        costs.record(*each)
        assert LEAST_BACKGROUND_CHUNK <= costs.background_chunk <= costs.chunk <= CHUNK
    costs.record(rows, per_row * rows)
    ahead = costs.background_chunk
    assert LEAST_BACKGROUND_CHUNK <= ahead <= CHUNK
    assert ahead == LEAST_BACKGROUND_CHUNK or ahead * per_row <= PREFILL_PASS_MS * (1 + 1e-9)
    assert ahead == CHUNK or (ahead + 1) * per_row > PREFILL_PASS_MS * (1 - 1e-9)
    assert costs.chunk == max(ahead, LEAST_CHUNK)


def test_the_first_pass_ahead_of_need_is_large_enough_to_tell_how_long_the_next_may_be() -> None:
    costs = PassCosts()
    first = costs.background_chunk
    costs.record(first, first * 1.0)
    assert costs.background_chunk == PREFILL_PASS_MS and costs.chunk == LEAST_CHUNK


def test_one_slow_pass_does_not_shorten_all_passes_ahead_for_good() -> None:
    costs = PassCosts()
    costs.record(CHUNK, 1000.0 * CHUNK)
    for _ in range(200):
        rows = costs.background_chunk
        costs.record(rows, 0.1 * rows)
    assert costs.background_chunk == CHUNK


def test_a_prompt_is_computed_in_whole_chunks_until_one_was_timed_and_then_in_passes_that_can_be_waited_for() -> None:
    costs = PassCosts()
    assert costs.chunk == CHUNK
    costs.record(CHUNK, CHUNK * PREFILL_PASS_MS / (LEAST_CHUNK + 8))
    assert costs.chunk == LEAST_CHUNK + 8
    costs.record(CHUNK, CHUNK * PREFILL_PASS_MS)
    assert costs.chunk == LEAST_CHUNK
