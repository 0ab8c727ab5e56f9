from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.session.time_budget import GRAIN, WINDOW, Allowance


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def work(allowance: Allowance, clock: Clock, seconds: float) -> None:
    with allowance.spending():
        clock.now += seconds


def test_none_is_left_where_none_was_given(clock: Clock) -> None:
    allowance = Allowance(0, clock)
    assert allowance.left() <= 0
    assert allowance.frees_in() is None


def test_what_is_spent_is_not_left(clock: Clock) -> None:
    allowance = Allowance(3, clock)
    work(allowance, clock, 1)
    assert allowance.left() == 2
    work(allowance, clock, 2)
    assert allowance.left() == 0


def test_work_under_way_counts(clock: Clock) -> None:
    allowance = Allowance(3, clock)
    with allowance.spending():
        clock.now += 2
        assert allowance.left() == 1
        clock.now += 2
        assert allowance.left() == -1


def test_work_that_fails_was_work(clock: Clock) -> None:
    allowance = Allowance(3, clock)
    with pytest.raises(ValueError), allowance.spending():
        clock.now += 1
        raise ValueError
    clock.now += 1
    assert allowance.left() == 2


def test_it_comes_back_when_it_says(clock: Clock) -> None:
    allowance = Allowance(3, clock)
    work(allowance, clock, 1.5)
    clock.now += 10
    work(allowance, clock, 1.5)
    first = allowance.frees_in()
    assert first is not None
    assert WINDOW - 11.5 <= first <= WINDOW - 11.5 + GRAIN
    clock.now += first - 0.01
    assert allowance.left() == 0
    clock.now += 0.01
    assert allowance.left() == 1.5
    assert (second := allowance.frees_in()) is not None
    clock.now += second
    assert allowance.left() == 3
    assert allowance.frees_in() is None


def test_where_none_is_given_any_more_waiting_is_in_vain(clock: Clock) -> None:
    allowance = Allowance(3, clock)
    work(allowance, clock, 1)
    allowance.seconds = 0
    assert allowance.left() < 0
    assert allowance.frees_in() is None


def test_it_can_be_changed_and_says_so(clock: Clock) -> None:
    allowance, told = Allowance(0, clock), []
    allowance.watch(lambda: told.append(allowance.left()))
    allowance.seconds = 3
    work(allowance, clock, 2)
    allowance.seconds = 1
    assert told == [3, -1]


def test_many_small_pieces_of_work_are_few_entries(clock: Clock) -> None:
    allowance = Allowance(3, clock)
    for _ in range(20_000):
        clock.now += 0.01
        work(allowance, clock, 0.0001)
        allowance.left()
    assert len(allowance._spent) <= (WINDOW + 2 * GRAIN) / GRAIN


@given(st.floats(0.1, 20), st.lists(st.tuples(st.floats(0, 30), st.floats(0.001, 5)), max_size=40))
def test_no_minute_holds_more_work(seconds: float, plan: list[tuple[float, float]]) -> None:
    """Pauses and wishes for work, each granted as far as the allowance goes."""
    clock, done = Clock(), list[tuple[float, float]]()
    allowance = Allowance(seconds, clock)
    for pause, wish in plan:
        clock.now += pause
        if (granted := min(wish, allowance.left())) > 0:
            done.append((clock.now, clock.now + granted))
            work(allowance, clock, granted)
    for _, end in done:
        assert sum(max(0.0, e - max(b, end - WINDOW)) for b, e in done if e <= end) <= seconds + 1e-6
