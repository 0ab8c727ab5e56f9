from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.idle_budget import GRAIN, WINDOW, IdleBudget
from tests.waiting import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def work(budget: IdleBudget, clock: Clock, seconds: float) -> None:
    with budget.spending():
        clock.now += seconds


def test_none_is_left_where_none_was_given(clock: Clock) -> None:
    budget = IdleBudget(0, clock)
    assert budget.left() <= 0
    assert budget.frees_in() is None


def test_what_is_spent_is_not_left(clock: Clock) -> None:
    budget = IdleBudget(3, clock)
    work(budget, clock, 1)
    assert budget.left() == 2
    work(budget, clock, 2)
    assert budget.left() == 0


def test_work_under_way_counts(clock: Clock) -> None:
    budget = IdleBudget(3, clock)
    with budget.spending():
        clock.now += 2
        assert budget.left() == 1
        clock.now += 2
        assert budget.left() == -1


def test_work_that_fails_was_work(clock: Clock) -> None:
    budget = IdleBudget(3, clock)
    with pytest.raises(ValueError), budget.spending():
        clock.now += 1
        raise ValueError
    clock.now += 1
    assert budget.left() == 2


def test_it_comes_back_when_it_says(clock: Clock) -> None:
    budget = IdleBudget(3, clock)
    work(budget, clock, 1.5)
    clock.now += 10
    work(budget, clock, 1.5)
    first = budget.frees_in()
    assert first is not None
    assert WINDOW - 11.5 <= first <= WINDOW - 11.5 + GRAIN
    clock.now += first - 0.01
    assert budget.left() == 0
    clock.now += 0.01
    assert budget.left() == 1.5
    assert (second := budget.frees_in()) is not None
    clock.now += second
    assert budget.left() == 3
    assert budget.frees_in() is None


def test_where_none_is_given_any_more_waiting_is_in_vain(clock: Clock) -> None:
    budget = IdleBudget(3, clock)
    work(budget, clock, 1)
    budget.allow(0)
    assert budget.left() < 0
    assert budget.frees_in() is None


def test_it_can_be_changed_and_says_so(clock: Clock) -> None:
    budget, told = IdleBudget(0, clock), []
    budget.watch(lambda: told.append(budget.left()))
    budget.allow(3)
    work(budget, clock, 2)
    budget.allow(1)
    assert told == [3, -1]


def test_many_small_pieces_of_work_are_few_entries(clock: Clock) -> None:
    budget = IdleBudget(3, clock)
    for _ in range(20_000):
        clock.now += 0.01
        work(budget, clock, 0.0001)
        budget.left()
    assert len(budget._spent) <= (WINDOW + 2 * GRAIN) / GRAIN


@given(st.floats(0.1, 20), st.lists(st.tuples(st.floats(0, 30), st.floats(0.001, 5)), max_size=40))
def test_no_minute_holds_more_work(seconds: float, plan: list[tuple[float, float]]) -> None:
    """Pauses and wishes for work, each granted as far as the budget goes."""
    clock, done = Clock(), list[tuple[float, float]]()
    budget = IdleBudget(seconds, clock)
    for pause, wish in plan:
        clock.now += pause
        if (granted := min(wish, budget.left())) > 0:
            done.append((clock.now, clock.now + granted))
            work(budget, clock, granted)
    for _, end in done:
        assert sum(max(0.0, e - max(b, end - WINDOW)) for b, e in done if e <= end) <= seconds + 1e-6
