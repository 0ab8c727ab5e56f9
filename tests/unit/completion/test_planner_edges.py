"""The thresholds of R3, R5 and R10, each at its last value on either side."""

from __future__ import annotations

import numpy as np
import pytest

from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.planning.planner import CHEAP, REMEMBERED_LINES, UNBEATABLE, Plan, Planner
from efim_ls.completion.planning.window import Budget
from efim_ls.request import Request
from model_runtime.cancel import NEVER
from model_runtime.prompt.prompt import Prompt, PromptPart
from tests.unit.planning import CHEAPLY, fours, numbered, prompt_of_fours

TEXT = numbered(8)
LONGEST = 1000  # tokens of a prompt below


class Priced:
    """A planner whose frames cost what a test says: kept ones by number, any new one the same.

    The first plan's prompt is all zeros; another prompt ends in as many ones as it costs.
    """

    def __init__(self) -> None:
        self.costs: dict[int, int] = {}
        self.new = 0
        self.looked_at: list[int] = []
        self.planner = Planner(Budget(), fours, self._prompt)
        assert self.plan(new=0).frame == "new"

    def plan(self, new: int = LONGEST, **kept: int) -> Plan:
        """Plan at the same place again; `_0=5` prices frame 0 at 5 tokens."""
        self.new, self.looked_at = new, []
        self.costs = {int(name[1:]): cost for name, cost in kept.items()}
        return self.planner.plan(TEXT, len(TEXT)).plan

    def _prompt(self, plan: Plan) -> Prompt:
        cost = self.new if plan.frame == "new" else self.costs[plan.number]
        self.looked_at.append(plan.number)
        ids = np.array([0] * (LONGEST - cost) + [1 + plan.number] * cost, dtype=np.int32)
        return Prompt((PromptPart("typed", ids),), b"", ids)


def test_r10_a_frame_that_costs_64_tokens_is_taken_without_a_look_at_new_ones() -> None:
    priced = Priced()
    assert CHEAP == 64
    assert priced.plan(_0=64, new=2).frame == "kept"
    assert priced.looked_at == [0]


def test_r10_a_frame_that_costs_65_tokens_gives_way_to_a_cheaper_new_one() -> None:
    assert Priced().plan(_0=65, new=64).frame == "new"
    assert Priced().plan(_0=65, new=66).frame == "kept"


def test_r10_a_kept_frame_wins_a_tie_with_a_new_one() -> None:
    assert Priced().plan(_0=100, new=100).frame == "kept"
    assert Priced().plan(_0=100, new=99).frame == "new"


@pytest.fixture
def three() -> Priced:
    """Three frames that fit the same place; frame 0's prompt is as it was first made."""
    priced = Priced()
    for number in (1, 2):
        assert priced.plan(_0=500, _1=500, new=400).number == number
    return priced


def test_r10_of_cheap_frames_the_cheapest_is_taken(three: Priced) -> None:
    plan = three.plan(_2=64, _1=3, _0=2)
    assert (plan.number, plan.frame) == (0, "restored")


def test_r10_the_most_recently_used_of_equally_cheap_frames_is_taken(three: Priced) -> None:
    assert three.plan(_2=5, _1=5, _0=5).number == 2


def test_r10_a_frame_that_costs_one_token_is_taken_without_a_look_at_others(three: Priced) -> None:
    assert UNBEATABLE == 1
    assert three.plan(_2=2, _1=1, _0=0).number == 1
    assert three.looked_at == [2, 1]


@pytest.mark.parametrize(("lines", "kept"), [(10, True), (9, False)])
def test_r3_a_kept_tail_must_fill_half_its_budget_where_the_text_goes_on_below(lines: int, kept: bool) -> None:
    planner, tail = CHEAPLY.planner(), "abc\n" * lines
    assert CHEAPLY.budget.tail == 20 and CHEAPLY.count(tail) == lines
    assert planner.plan("x\n" + tail, 1).plan.tail == tail
    longer = "x\n" + tail + "efg\n" * 30
    plan = planner.plan(longer, 1).plan
    assert (plan.frame, plan.tail == tail) == (("kept", True) if kept else ("new", False))


@pytest.mark.parametrize(("lines", "kept"), [(199, True), (200, False)])
def test_r5_a_frame_whose_anchor_is_199_lines_above_is_found_again(lines: int, kept: bool) -> None:
    planner = Planner(Budget(head=4000), fours, prompt_of_fours)
    first = planner.plan(TEXT + "x", len(TEXT) + 1).plan
    above = "" if first.typed.count("\n") > lines else "a\n" * (lines - first.typed.count("\n"))
    moved, typed = "# new\n", TEXT[len(first.head) :] + above + "x"
    text = moved + first.head + typed
    plan = planner.plan(text, len(text)).plan
    assert REMEMBERED_LINES == 200 and typed.count("\n") == lines
    assert (plan.number == first.number, plan.typed == typed) == (kept, kept)


# What is asked for, and so may be saved


def test_the_frames_that_were_asked_for_are_kept_as_they_were_asked_for() -> None:
    document, text = DocumentState(CHEAPLY.planner), numbered(300)
    places = [text.index(f"value_{line} ") for line in (40, 140, 240)]
    asked = [document.plan(Request("file:///a.py", text, place), NEVER) for place in places]
    assert [frame.plan.number for frame in asked] == [0, 1, 2]
    assert document.requested_frames() == asked
    again = document.plan(Request("file:///a.py", text, places[0]), NEVER)
    assert again.plan.number == 0
    assert document.requested_frames() == [*asked[1:], again]


def test_a_prefetched_frame_is_not_one_that_was_asked_for() -> None:
    document, text = DocumentState(CHEAPLY.planner), numbered(300)
    place = text.index("value_40 ")
    asked = document.plan(Request("file:///a.py", text, place), NEVER)
    foreseen = text[:place] + "foreseen" + text[place:]
    planned = document.planner.plan(foreseen, place + len("foreseen"))
    assert planned.plan.number == asked.plan.number and "foreseen" in planned.plan.typed
    document.planner.plan(text, text.index("value_240 "))
    assert document.requested_frames() == [asked]
