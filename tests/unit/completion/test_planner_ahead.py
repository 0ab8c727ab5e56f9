"""Frames that are made before they are needed, and planners that plan without being used."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.planning.planner import Plan, Planner
from efim_ls.completion.planning.window import Budget
from model_runtime.ids import common_prefix
from model_runtime.kv.pool import MIN_COPIED
from model_runtime.prompt.pieces import fragments
from tests.unit.planning import (
    REALLY,
    Counter,
    Editor,
    Played,
    Session,
    counters,
    fewer,
    frame,
    histories,
    numbered,
    places,
    short_texts,
    states,
    texts,
    unhurried,
)

WORDS = "".join(f"    word_{i} = other_{i}\n" for i in range(60))


def typed_keys(counter: Counter, played: Played, ahead: bool) -> list[tuple[Plan, int]]:
    """Type WORDS key by key in the middle of a text: each plan and its cost, the next frame made ahead or not."""
    editor = Editor(numbered(60), 0)
    editor.go_behind("value_30 ")
    plans: list[tuple[Plan, int]] = []
    for key in "\n" + WORDS:
        plans.append(played.plan(*editor.type(key)))
        if ahead and (renewed := played.planner.plan_next(*editor.state)):
            played.compute(renewed.plan)
    return plans


def costs_of_new_frames(plans: list[tuple[Plan, int]]) -> list[int]:
    return [cost for (before, _), (plan, cost) in pairwise(plans) if plan.number != before.number]


@counters
def test_a_renewed_frame_makes_it_cheap_to_outgrow_the_last_one(counter: Counter) -> None:
    without = costs_of_new_frames(typed_keys(counter, Played(counter), ahead=False))
    assert len(without) > 2
    assert min(without) > counter.budget.typed // 2
    typed = typed_keys(counter, Played(counter), ahead=True)
    assert len(costs_of_new_frames(typed)) > 2
    assert max(cost for _, cost in typed[1:]) <= 3


@counters
@fewer
@given(text=short_texts, place=places, lines=st.lists(st.sampled_from(["", "    a = 1", "b", "})"]), max_size=30))
def test_a_renewed_frame_does_not_serve_before_the_last_one_is_outgrown(
    counter: Counter, text: str, place: int, lines: list[str]
) -> None:
    editor, planner, control = Editor(text, len(text) * place // 1000), counter.planner(), counter.planner()
    serving = planner.plan(*editor.state).plan
    assert serving == control.plan(*editor.state).plan
    for key in "\n".join(lines):
        planner.plan_next(*editor.state)
        plan, without = planner.plan(*editor.type(key)).plan, control.plan(*editor.state).plan
        if without.frame == "new":
            return
        assert (plan, plan.number) == (without, serving.number)


def test_nothing_is_renewed_before_anything_was_planned_or_while_typed_has_room() -> None:
    planner, most = REALLY.planner(), REALLY.budget.typed
    text = numbered(60)
    editor = Editor(text, 0)
    editor.go_behind("value_30 ")
    assert planner.plan_next(*editor.state) is None
    while REALLY.count(planner.plan(*editor.state).plan.typed) <= most * 3 // 4:
        assert planner.plan_next(*editor.state) is None
        editor.type("\nab")
    assert planner.plan_next(*editor.state) is not None


@counters
def test_renewing_again_gives_the_same_frame(counter: Counter) -> None:
    editor, planner = Editor(numbered(60), 0), counter.planner()
    editor.go_behind("value_30 ")
    last = planner.plan(*editor.state).plan
    while (renewed := planner.plan_next(*editor.state)) is None:
        last = planner.plan(*editor.type("\nab")).plan
    again = planner.plan_next(*editor.state)
    assert again is not None
    assert renewed.plan.number != last.number
    assert (again.plan.frame, again.plan.number) == ("restored", renewed.plan.number)
    assert frame(again.plan) == frame(renewed.plan)
    assert planner.plan(*editor.state).plan.number == last.number


@counters
@unhurried
@given(text=st.one_of(short_texts, st.integers(0, 80).map(numbered)), place=places)
def test_any_place_in_the_first_window_shares_its_head_with_the_opening(
    counter: Counter, text: str, place: int
) -> None:
    planner = counter.planner()
    opening = counter.ids(planner.plan_unopened(text).plan)
    cursor = len(counter.window.beginning(text, 0, counter.budget.head)) * place // 1000
    plan = planner.plan(text, cursor).plan
    assert plan.start == 0
    *lines, _ = fragments(plan.head) if plan.head else ("",)  # the last may be of blank lines that the anchor parts
    assert common_prefix(opening, counter.ids(plan)) > counter.count("".join(lines))


@counters
@pytest.mark.parametrize("line", [0, 3, 9, 15])
def test_the_first_plan_after_an_opening_computes_the_tail_and_what_is_typed(counter: Counter, line: int) -> None:
    played, editor = Played(counter), Editor(numbered(60), 0)
    played.compute(played.planner.plan_unopened(editor.text).plan)
    plan, cost = played.plan(*editor.go_behind(f"value_{line} "))
    assert cost <= 2 + counter.count(plan.tail) + counter.count(plan.typed) + MIN_COPIED


calls = st.sampled_from(["plan", "plan", "plan", "plan_next", "plan_unopened"])


def call(planner: Planner, name: str, text: str, cursor: int) -> Plan | None:
    if name == "plan_unopened":
        return planner.plan_unopened(text).plan
    made = planner.plan(text, cursor) if name == "plan" else planner.plan_next(text, cursor)
    return made and made.plan


@counters
@unhurried
@given(session=histories(texts), names=st.lists(calls, min_size=13, max_size=13))
def test_plans_depend_on_the_calls_before_and_on_nothing_else(
    counter: Counter, session: Session, names: list[str]
) -> None:
    one, other = counter.planner(), counter.planner()
    for name, state in zip(names, states(*session), strict=False):
        assert call(one, name, *state) == call(other, name, *state)


@counters
@unhurried
@given(
    session=histories(texts),
    names=st.lists(calls, min_size=13, max_size=13),
    elsewhere=st.lists(st.tuples(calls, short_texts, places), max_size=4),
)
def test_what_a_copy_plans_the_original_would_plan_and_never_learns_of(
    counter: Counter, session: Session, names: list[str], elsewhere: list[tuple[str, str, int]]
) -> None:
    planner, control = counter.planner(), counter.planner()
    for name, state in zip(names, states(*session), strict=False):
        copied = planner.copy()
        expected = call(copied, name, *state)
        for other, text, place in elsewhere:
            call(copied, other, text, len(text) * place // 1000)
        assert call(planner, name, *state) == expected == call(control, name, *state)


# R12

SLOW = replace(REALLY, budget=Budget(400, 100, shortest=80))
WHOLE = replace(REALLY, budget=Budget(400, 100))


def test_r12_the_first_window_is_short_and_the_whole_one_serves_once_it_is_computed() -> None:
    editor, slow, whole = Editor(numbered(300), 0), SLOW.planner(), WHOLE.planner()
    editor.go_behind("value_200 ")
    first, wanted = slow.plan(*editor.state), whole.plan(*editor.state)
    assert len(first.ids) * 2 < len(wanted.ids)
    assert wanted.plan.head.endswith(first.plan.head) and wanted.plan.tail.startswith(first.plan.tail)
    behind = slow.plan_whole(*editor.state)
    assert behind is not None and replace(behind.plan, number=0) == replace(wanted.plan, number=0)
    assert slow.plan(*editor.type("a")).plan.number == first.plan.number
    slow.prefer(behind)
    after = slow.plan(*editor.type("b"))
    assert (after.plan.number, after.plan.frame) == (behind.plan.number, "kept")
    assert after.ids.tolist() == whole.plan(*editor.state).ids.tolist()
    assert slow.plan_whole(*editor.state) is None


def test_r12_a_text_that_is_no_longer_than_a_short_window_is_planned_whole() -> None:
    editor, slow, whole = Editor(numbered(12), 0), SLOW.planner(), WHOLE.planner()
    editor.go_behind("value_9 ")
    assert slow.plan(*editor.state).plan == whole.plan(*editor.state).plan
    assert slow.plan_whole(*editor.state) is None


@unhurried
@given(session=histories(texts), ahead=st.lists(st.sampled_from(["", "whole", "prefer"]), min_size=13, max_size=13))
def test_r12_every_window_is_part_of_the_text_and_costs_no_more_than_a_whole_one(
    session: Session, ahead: list[str]
) -> None:
    slow, behind = SLOW.planner(), None
    for (text, cursor), act in zip(states(*session), ahead, strict=False):
        plan = slow.plan(text, cursor).plan
        assert text.startswith(plan.head + plan.typed + plan.rest, plan.start)
        assert len(SLOW.planner().plan(text, cursor).ids) <= len(WHOLE.planner().plan(text, cursor).ids)
        if act == "whole":
            behind = slow.plan_whole(text, cursor) or behind
        elif act and behind:
            slow.prefer(behind)


def test_r12_once_the_whole_window_serves_it_is_as_if_there_had_been_no_short_one() -> None:
    editor, slow, whole = Editor(numbered(300), 0), SLOW.planner(), WHOLE.planner()
    slow.plan(*editor.go_behind("value_200 "))
    behind = slow.plan_whole(*editor.state)
    whole.plan(*editor.state)
    assert behind is not None
    slow.prefer(behind)
    for line in range(201, 212):  # as far as its window reaches
        place = editor.go_behind(f"value_{line} ")
        assert slow.plan_at_rest(*place).ids.tolist() == whole.plan_at_rest(*place).ids.tolist()
        assert slow.plan_whole(*place) is None


def test_r12_a_text_that_is_opened_is_read_from_its_beginning() -> None:
    planner, text = SLOW.planner(), numbered(300)
    opened = planner.plan_unopened(text)
    assert opened.plan == replace(WHOLE.planner().plan_unopened(text).plan, number=opened.plan.number)
    assert planner.plan_whole(text, 0) is None
