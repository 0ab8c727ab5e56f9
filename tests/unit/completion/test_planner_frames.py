"""Which of a document's frames serves, and what that costs: R2, R5 and R10 are rules of the design."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from efim_ls.completion.planning.planner import CHEAP, FRAMES, UNBEATABLE, Plan, Planner, ResumesAt
from efim_ls.completion.planning.window import Budget
from efim_ls.text.lines import starts_line
from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.pool import MIN_COPIED
from model_runtime.prompt.prompt import Prompt
from tests.unit.planning import (
    CHEAPLY,
    REALLY,
    Counter,
    Editor,
    Played,
    Session,
    counters,
    fewer,
    fours,
    frame,
    histories,
    is_at_line_start,
    keystrokes,
    next_line,
    numbered,
    prompt_of_fours,
    short_texts,
    states,
    texts,
    unhurried,
)


@dataclass
class Remembered:
    """The frames that a planner is to remember, by what it planned: number to plan and prompt, last used last."""

    counter: Counter
    frames: dict[int, tuple[Plan, Ids]] = field(default_factory=dict)

    def note(self, plan: Plan) -> None:
        self.frames.pop(plan.number, None)
        self.frames[plan.number] = plan, self.counter.ids(plan)
        if len(self.frames) > FRAMES:
            del self.frames[next(iter(self.frames))]

    def cost(self, plan: Plan) -> int:
        ids = self.counter.ids(plan)
        return len(ids) - max((common_prefix(known, ids) for _, known in self.frames.values()), default=0)

    def least(self, text: str, cursor: int) -> int | None:
        """What the cheapest of the frames that fit costs, found by looking at all; None where none fits."""
        plans = [self._fitted(plan, text, cursor) for plan, _ in self.frames.values()]
        return min((self.cost(plan) for plan in plans if plan), default=None)

    def _fitted(self, plan: Plan, text: str, cursor: int) -> Plan | None:
        counter, below = self.counter, next_line(text, cursor)
        starts = [at for at in range(cursor, -1, -1) if starts_line(text, at)]
        anchors = [at for at in [plan.start + len(plan.head), *starts] if len(plan.head) <= at <= cursor]
        anchor = next((at for at in anchors if text[:at].endswith(plan.head)), None)
        if anchor is None or not (plan.head or plan.start == 0) or not text.startswith(plan.tail, below):
            return None
        if not counter.window.fits(text[anchor:cursor], counter.budget.typed):
            return None
        too_short = 2 * counter.count(plan.tail) < counter.budget.tail and below + len(plan.tail) != len(text)
        if too_short and plan.tail != counter.window.tail(text, below):
            return None
        start, rest = anchor - len(plan.head), text[cursor:below].rstrip("\r\n")
        return Plan("kept", plan.number, start, plan.head, text[anchor:cursor], rest, plan.tail)


# R2

REPETITIVE = [
    "aaa    \n\n\n    \n    \n    \nef f(a):\nef f(a):\naïve = '日本😀'\n"
    "aïve = '日本😀'\naïve = '日本😀'\ndef f(a):\n    \n\t\n\t\r\nnaïve = '日本😀'\n"
    "\n\n    return a\nnaïve = '日本😀'a(    # \u2028 \x85\n    return a\n"
    "f f(a):\n    \n   def f(a):\naïve = '日本😀'\n    return a😀",
    "\n\n\n\n\n\n\t\nef f(a):\nef f(a):\n    return a\ndef f(a):\n    \n\t\n\t\r\n"
    "naïve = '日本😀'\n\n\n    return a\n   return a",
    "naïve = '日本😀'\n return a\n\n\n    \n    return a\n    return a\n    return a\n",
]


@counters
@fewer
@given(typing=st.lists(st.one_of(keystrokes, short_texts), max_size=30), text=short_texts)
@example(typing=REPETITIVE, text="")
def test_r2_the_window_moves_only_where_the_head_outgrows_its_budget(
    counter: Counter, typing: list[str], text: str
) -> None:
    planner, remembered = counter.planner(), Remembered(counter)
    last = planner.plan(text, len(text)).plan
    remembered.note(last)
    for key in typing:
        text += key
        plan = planner.plan(text, len(text)).plan
        if plan.start != last.start:
            anchor = plan.start + len(plan.head)
            stayed = replace(plan, start=last.start, head=text[last.start : anchor])
            cheaper = remembered.cost(plan) < remembered.cost(stayed)  # in a text that repeats itself (R10)
            assert counter.count(text[last.start : anchor]) > counter.budget.head or cheaper
            assert counter.count(plan.head) <= counter.budget.head * 0.6
            assert is_at_line_start(text, plan.start)
        last = plan
        remembered.note(plan)


@counters
@unhurried
@given(data=st.data(), new=short_texts)
def test_r2_edits_before_the_window_do_not_move_it(counter: Counter, data: st.DataObject, new: str) -> None:
    text, below = numbered(60), "".join(f"other_{i} = {i}\n" for i in range(30))
    planner = counter.planner()
    first = planner.plan(text + below, len(text)).plan
    start = data.draw(st.integers(0, first.start - 1))
    end = data.draw(st.integers(start, first.start - 1))
    edited = text[:start] + new + text[end:]
    plan = planner.plan(edited + below, len(edited)).plan
    moved = len(edited) - len(text)
    assert plan.frame == "kept"
    assert frame(plan) == (first.start + moved, first.head, first.tail)
    later = planner.plan(edited + below, len(edited) + below.index("other_2")).plan
    assert later.frame == "new"
    assert later.start == first.start + moved


def test_a_tail_is_renewed_after_going_up_through_typed_lines() -> None:
    above, planner = numbered(5), REALLY.planner()
    planner.plan(above, len(above))
    written = above + "one = 1\ntwo = 2\nthree = 3"
    assert planner.plan(written, len(written)).plan.frame == "kept"
    plan = planner.plan(written, len(above + "one")).plan
    assert plan.tail.endswith("two = 2\nthree = 3")


def test_a_tail_is_renewed_after_text_is_appended_below() -> None:
    above, planner = numbered(5), REALLY.planner()
    assert planner.plan(above, len(above)).plan.tail == ""
    plan = planner.plan(above + "\nlast = 1\n", len(above)).plan
    assert plan.tail == "last = 1\n"


def test_an_anchor_above_the_last_windows_start_begins_a_line_when_text_is_inserted_above() -> None:
    text, planner = numbered(60), CHEAPLY.planner()
    start = planner.plan(text, text.index("value_50")).plan.start
    assert start > 0
    planner.plan(text, start)
    longer, cursor = "# new\n" + text, len("# new\n") + start
    plan = planner.plan(longer, cursor).plan
    assert is_at_line_start(longer, plan.start) and is_at_line_start(longer, plan.start + len(plan.head))
    assert longer[plan.start : cursor] == plan.head + plan.typed


def test_a_frame_is_found_again_after_the_same_text_moved_many_lines() -> None:
    text, planner = numbered(60), CHEAPLY.planner()
    cursor = text.index("value_40")
    first = planner.plan(text, cursor).plan
    pasted = "pasted = 0\n" * 500
    plan = planner.plan(pasted + text, len(pasted) + cursor).plan
    assert plan.frame == "kept"
    assert frame(plan) == (first.start + len(pasted), first.head, first.tail)


# R5

FAR = 100  # lines, further than windows reach


@counters
def test_r5_two_places_edited_in_turn_cost_what_is_typed_there(counter: Counter) -> None:
    editor, played = Editor(numbered(3 * FAR), 0), Played(counter)
    first = [played.plan(*editor.go_behind(f"value_{i} "))[0] for i in (FAR, 2 * FAR)]
    assert [plan.frame for plan in first] == ["new", "new"]
    for turn in range(6):
        i = turn % 2
        editor.go_behind(f"value_{FAR * (1 + i)} ")
        plan, cost = played.plan(*editor.type(f" + {turn}"))
        assert (plan.frame, plan.number, frame(plan)[1:]) == ("restored", first[i].number, frame(first[i])[1:])
        assert cost <= 1 + counter.count(f" + {turn}")
        plan, cost = played.plan(*editor.type("0"))
        assert (plan.frame, cost <= 2) == ("kept", True)


@counters
def test_r5_jumping_there_and_back_costs_nothing_but_the_last_token(counter: Counter) -> None:
    editor, played = Editor(numbered(3 * FAR), 0), Played(counter)
    here = played.plan(*editor.go_behind(f"value_{FAR} "))[0]
    there = played.plan(*editor.go_behind(f"value_{2 * FAR} "))[0]
    for line, first in ((FAR, here), (2 * FAR, there), (FAR, here)):
        plan, cost = played.plan(*editor.go_behind(f"value_{line} "))
        assert (plan.frame, plan.number, cost) == ("restored", first.number, 0)


@counters
@pytest.mark.parametrize("away", [8, FAR], ids=["within the window", "far away"])
def test_r5_undo_after_a_jump_finds_the_frame_of_what_is_undone(counter: Counter, away: int) -> None:
    editor, played = Editor(numbered(3 * FAR), 0), Played(counter)
    first = played.plan(*editor.go_behind(f"value_{FAR} "))[0]
    typed = [played.plan(*editor.type(key))[0] for key in " + 1"]
    assert {plan.number for plan in typed} == {first.number}
    jumped = played.plan(*editor.go_behind(f"value_{FAR + away} "))[0]
    assert jumped.number != first.number
    plan, cost = played.plan(*editor.undo())
    assert (plan.frame, plan.number, frame(plan)) == ("restored", first.number, frame(first))
    assert cost <= 2


def test_r5_close_to_an_older_place_its_window_is_shown_again() -> None:
    counter = replace(CHEAPLY, budget=Budget(head=240, tail=20))  # a new window costs much
    editor, played = Editor(numbered(3 * FAR), 0), Played(counter)
    first = played.plan(*editor.go_behind(f"value_{FAR} "))[0]
    played.plan(*editor.go_behind(f"value_{2 * FAR} "))
    plan, cost = played.plan(*editor.go_behind(f"value_{FAR + 5} "))
    assert (plan.frame, plan.start) == ("new", first.start)
    assert plan.head.startswith(first.head)
    assert cost <= counter.count(plan.head[len(first.head) :] + plan.tail + plan.typed) + 2


@counters
def test_r5_eight_frames_are_remembered_and_the_least_recently_used_goes(counter: Counter) -> None:
    editor, played = Editor(numbered((FRAMES + 2) * FAR), 0), Played(counter)

    def visit(place: int) -> tuple[Plan, int]:
        return played.plan(*editor.go_behind(f"value_{(place + 1) * FAR} "))

    numbers = [visit(place)[0].number for place in range(FRAMES)]
    assert len(set(numbers)) == FRAMES == 8
    assert visit(0)[0].frame == "restored"
    assert visit(FRAMES)[0].frame == "new"
    for place in (0, *range(2, FRAMES)):
        plan, cost = visit(place)
        assert (plan.frame, plan.number, cost) == ("restored", numbers[place], 0)
    plan, cost = visit(1)
    assert (plan.frame, plan.number in numbers) == ("new", False)
    assert cost >= counter.count(plan.head)


# R10


@counters
@unhurried
@given(session=histories(texts, most=20))
def test_r10_no_frame_that_fits_is_cheaper_than_the_plan(counter: Counter, session: Session) -> None:
    planner, remembered = counter.planner(), Remembered(counter)
    for text, cursor in states(*session):
        plan, least = planner.plan(text, cursor).plan, remembered.least(text, cursor)
        if least is not None:
            assert remembered.cost(plan) <= max(least, UNBEATABLE)
            assert plan.frame != "new" or least > CHEAP
        else:
            assert plan.frame == "new"
        last = next(reversed(remembered.frames), None)
        assert (plan.frame == "kept") == (plan.number == last)
        assert (plan.frame == "new") == (plan.number not in remembered.frames)
        remembered.note(plan)


@counters
@unhurried
@given(session=histories(texts, most=20))
def test_r10_sequences_recompute_what_the_planner_expects(counter: Counter, session: Session) -> None:
    played, remembered = Played(counter), Remembered(counter)
    for text, cursor in states(*session):
        plan = played.planner.plan(text, cursor).plan
        expected, cost = remembered.cost(plan), played.compute(plan)
        assert expected <= cost <= expected + MIN_COPIED
        remembered.note(plan)


@pytest.mark.parametrize(("resumes_at", "considered"), [(int, {"kept"}), (lambda _: 0, {"kept", "new"})])
def test_r10_a_frame_costs_what_follows_the_place_where_computing_can_go_on(
    resumes_at: ResumesAt, considered: set[str]
) -> None:
    made: list[str] = []

    def prompt(plan: Plan) -> Prompt:
        made.append(plan.frame)
        return prompt_of_fours(plan)

    planner, text = Planner(Budget(400, 100), fours, prompt, resumes_at), numbered(100)
    planner.plan(text, len(text))
    made.clear()
    planner.plan(text + "w", len(text) + 1)
    assert set(made) == considered


def test_a_plan_that_is_stopped_leaves_nothing_behind() -> None:
    made: list[Plan] = []

    def prompt(plan: Plan) -> Prompt:
        made.append(plan)
        return prompt_of_fours(plan)

    planner = Planner(Budget(64, 16), fours, prompt)
    text = "".join(f"value_{i:03} = {i}\n" for i in range(200))
    for cursor in (3000, 1000, 2000):
        planner.plan(text, cursor)
    before = planner.frames
    made.clear()
    with pytest.raises(Cancelled):
        planner.plan(text, 500, Cancel(lambda: True))
    assert planner.frames == before and len(made) <= 1
    assert planner.plan(text, 500, NEVER).plan.frame == "new"
