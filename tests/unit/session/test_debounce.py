from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.session.requests import (
    FASTEST_GAP,
    FEWEST_SAMPLES,
    LONGEST_DELAY,
    LONGEST_GAP,
    RECENT_SAMPLES,
    SHORT_ANSWER_STEPS,
    Debounce,
)

Answers = list[tuple[float, float]]
gaps = st.lists(st.floats(0, 3 * LONGEST_GAP), max_size=2 * RECENT_SAMPLES)
answers = st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e4)), max_size=2 * RECENT_SAMPLES)


def after(gaps: Iterable[float], answers: Iterable[tuple[float, float]]) -> Debounce:
    """A debounce that saw requests with these gaps in seconds, and answers with these milliseconds."""
    debounce = Debounce()
    for now in accumulate(gaps, initial=100.0):
        debounce.note_request(now, overtakes=True)
    for ms, first_ms in answers:
        debounce.note_step(ms, first_ms)
    return debounce


def rhythm(gap: float) -> list[float]:
    return [gap] * RECENT_SAMPLES


def machine(step_ms: float, first_ms: float) -> Answers:
    return [(step_ms, first_ms)] * RECENT_SAMPLES


@pytest.mark.parametrize(
    "gap, step_ms, first_ms, expected",
    [
        pytest.param(0.2, 1, 5, 0, id="a fast machine"),
        pytest.param(0.2, 25, 20, 0.2, id="slow steps"),
        pytest.param(0.2, 1, 450, 0.2, id="a slow prefill"),
        pytest.param(0.8, 100, 200, LONGEST_DELAY, id="slow answers to a slow typist"),
        pytest.param(0.2, 10, 70, 0.1, id="in between: half a gap"),
        pytest.param(0.2, 10, 20, 0, id="half a gap's work"),
        pytest.param(0.001, 100, 100, FASTEST_GAP, id="faster than anybody types"),
    ],
)
def test_the_wait(gap: float, step_ms: float, first_ms: float, expected: float) -> None:
    assert after(rhythm(gap), machine(step_ms, first_ms)).delay() == pytest.approx(expected)


def test_no_wait_where_the_last_request_was_answered_in_time() -> None:
    debounce = after(rhythm(0.2), machine(100, 100))
    debounce.note_request(200.0, overtakes=False)
    assert debounce.delay() == 0


def test_no_wait_before_enough_is_known() -> None:
    slow, typing = machine(100, 100), rhythm(0.2)
    assert after(typing[: FEWEST_SAMPLES - 1], slow).delay() == 0
    assert after(typing, slow[: FEWEST_SAMPLES - 1]).delay() == 0
    assert after(typing[:FEWEST_SAMPLES], slow[:FEWEST_SAMPLES]).delay() > 0


def test_pauses_are_no_rhythm() -> None:
    thinking = [LONGEST_GAP + 0.01] * RECENT_SAMPLES
    assert after(thinking, machine(100, 100)).delay() == 0
    assert after([*rhythm(0.1), *thinking], machine(100, 100)).delay() == pytest.approx(0.1)


def test_a_single_slow_answer_changes_nothing() -> None:
    assert after(rhythm(0.2), [*machine(1, 5), (500, 5000)]).delay() == 0


def test_what_was_long_ago_is_forgotten() -> None:
    assert after(rhythm(0.2), [*machine(100, 1000), *machine(1, 5)]).delay() == 0
    assert after([*rhythm(0.1), *rhythm(0.2)], machine(100, 100)).delay() == pytest.approx(0.2)


@given(gaps, answers)
def test_the_wait_is_neither_negative_nor_too_long(gaps: list[float], answers: Answers) -> None:
    assert 0 <= after(gaps, answers).delay() <= LONGEST_DELAY


@given(gaps, st.lists(st.floats(0, 1), min_size=FEWEST_SAMPLES))
def test_a_fast_machine_never_waits(gaps: list[float], shares: list[float]) -> None:
    most = FASTEST_GAP * 1e3 / 2
    fast = [(share * most / 2 / SHORT_ANSWER_STEPS, share * most / 2) for share in shares]
    assert after(gaps, fast).delay() == 0


@given(gaps, answers, st.floats(0, 1e3))
def test_slower_steps_never_shorten_the_wait(gaps: list[float], answers: Answers, more: float) -> None:
    slower = [(ms + more, first_ms) for ms, first_ms in answers]
    assert after(gaps, slower).delay() >= after(gaps, answers).delay()
