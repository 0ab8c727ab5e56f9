"""A simulated GPU does what costs nothing there, leaves what costs too much, and waits for none if it holds all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.studies.placement.experts import ExpertCosts, ExpertSimulation, Scores, SimulatedTokens, Way

LAYERS, COUNT, CHOSEN = 3, 8, 2
ALL, LEAST = LAYERS * COUNT, 2 * COUNT
costs = st.builds(ExpertCosts, st.floats(0.01, 1), st.floats(0.01, 10), st.floats(0.01, 10))


def random_scores(tokens: int, seed: int = 0) -> Scores:
    return np.random.default_rng(seed).random((tokens, LAYERS, COUNT), dtype=np.float32)


def simulated(way: Way, cost: ExpertCosts, slots: int = LEAST, scores: Scores | None = None) -> SimulatedTokens:
    scores = random_scores(20) if scores is None else scores
    return ExpertSimulation(LAYERS, COUNT, CHOSEN, slots, cost, way).run(scores, scores)


@given(cost=costs)
def test_a_gpu_that_never_brings_any_computes_none(cost: ExpertCosts) -> None:
    found = simulated("stay", cost)
    assert found.ms == pytest.approx(LAYERS * CHOSEN * cost.cpu)
    assert (found.held, found.brought, found.stayed) == (0, 0, 1)


@given(cost=costs)
def test_one_that_has_room_for_all_soon_holds_them(cost: ExpertCosts) -> None:
    one = np.zeros((1000, LAYERS, COUNT), np.float32)
    one[:, :, :CHOSEN] = 1
    found = simulated("bring", cost, ALL, one)
    assert found.ms == pytest.approx(LAYERS * CHOSEN * cost.gpu, abs=LAYERS * CHOSEN * cost.link / 1000)


def test_a_link_that_costs_too_much_is_not_used() -> None:
    cost = ExpertCosts(gpu=0.1, cpu=1.0, link=1e6)
    assert simulated("sooner", cost) == simulated("stay", cost)


def test_a_link_that_costs_nothing_brings_all() -> None:
    cost = ExpertCosts(gpu=0.1, cpu=1e6, link=1e-9)
    assert simulated("sooner", cost) == simulated("bring", cost)


@given(cost=costs, seed=st.integers(0, 99))
def test_a_token_whose_experts_go_where_they_are_done_sooner_takes_no_longer_than_either(
    cost: ExpertCosts, seed: int
) -> None:
    """Of the first token's first layer: from then on the GPU holds others."""
    first = random_scores(1, seed)[:, :1]
    times = [
        ExpertSimulation(1, COUNT, CHOSEN, LEAST, cost, way).run(first, first).ms
        for way in ("sooner", "stay", "bring")
    ]
    assert times[0] <= min(times[1:]) + 1e-9
