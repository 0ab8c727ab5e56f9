"""How much of a frame other machines may get: no part of it that a commit does not have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from efim_ls.completion.model_in_use import committed_parts
from efim_ls.completion.planning.planner import Frame, Plan, Planner
from efim_ls.completion.planning.window import Budget
from model_runtime.prompt.prompt import Prompt, build
from model_runtime.prompt.template import find_template
from model_runtime.sequence_key import Mask
from model_runtime.shelves.excerpts.excerpts import PLACES, Excerpt, ExcerptBudget, ExcerptPlace, Excerpts
from model_runtime.shelves.excerpts.layout import layout
from tests.unit.planning import TOKENIZER, Session, histories, short_texts, states, unhurried

BUDGET = Budget(head=120, tail=40, context=ExcerptBudget(40, 40, 40))
TEMPLATE = find_template(TOKENIZER)
OWN = "file:///d.py"
Masked = Mask | Literal[""]  # of isolated excerpts; none for a model that reads them in its prompt


def excerpt(place: ExcerptPlace, number: int) -> Excerpt:
    return Excerpt(place, f"f{number}.py", f"/f{number}.py", (number,), f"def f_{number}(): ...\n", "")


OFFER = Excerpts((excerpt("signatures", 1),), (excerpt("imports", 2),), (excerpt("similar", 3),), "r", "d.py")
FILES = {Path(each.file).as_uri(): each for each in OFFER.all}
committed_files = st.sets(st.sampled_from(sorted(FILES)))
masks = st.sampled_from(["", "typed", "head"])


def frame_of(text: str, cursor: int, mask: Masked) -> Frame:
    lay_out = layout(TOKENIZER, TEMPLATE, mask, BUDGET.context_tokens)

    def prompt(plan: Plan) -> Prompt:
        return build(TOKENIZER, TEMPLATE, plan.head, plan.tail, plan.typed, context=lay_out(plan.context))

    planner = Planner(BUDGET, TOKENIZER.pieces, prompt)
    planner.offer(OFFER)
    planner.plan_at_rest(text, cursor)
    return planner.frames[-1]


def texts(own: str, files: set[str]) -> Mapping[str, str]:
    return {OWN: own} | {file: FILES[file].text + "end = 1\n" for file in files}


@unhurried
@given(histories(short_texts), committed_files, masks, st.data())
def test_no_part_is_shared_that_is_not_committed(
    session: Session, files: set[str], mask: Masked, data: st.DataObject
) -> None:
    after = list(states(*session))
    own = data.draw(st.sampled_from([text for text, _ in after]))
    frame = frame_of(*after[-1], mask)
    shared = committed_parts(texts(own, files).get, OWN, frame)
    assert shared.excerpts <= files
    plan, at, lacking = frame.plan, 0, set(frame.prompt.origins) - files
    for part in (part for part in frame.prompt.parts if part.origin is None):
        at += len(part.ids)
        if not len(part.ids) or at > shared.tokens:
            continue
        assert not (part.sees_excerpts and lacking)
        if part.name in PLACES:
            assert all(Path(each.file).as_uri() in files for each in getattr(plan.context, part.name))
        elif part.name != "marker":
            assert getattr(plan, part.name).replace("\r\n", "\n") in own


@unhurried
@given(histories(short_texts), masks)
def test_all_is_shared_of_what_is_committed(session: Session, mask: Masked) -> None:
    text, cursor = list(states(*session))[-1]
    assume(text[cursor - 1 : cursor + 1] != "\r\n")  # no editor has a cursor in the midst of a line's end
    frame = frame_of(text, cursor, mask)
    shared = committed_parts(texts(text.replace("\r\n", "\n"), set(FILES)).get, OWN, frame)
    assert shared.tokens == len(frame.ids)
    assert shared.excerpts == set(frame.prompt.origins)


@pytest.mark.parametrize(("typed", "shares"), [("value = 1", True), ("password = 2", False)])
def test_a_line_typed_below_leaves_what_is_above_it(typed: str, shares: bool) -> None:
    above = "import os\n" * 9
    frame = frame_of(above + typed, len(above + typed), "typed")
    shared = committed_parts({OWN: above + "value = 1\n"}.get, OWN, frame)
    assert frame.plan.head and frame.prompt.ends[1] <= shared.tokens < len(
        frame.ids
    )  # no excerpt's file is committed
    whole = committed_parts(texts(above + "value = 1\n", set(FILES)).get, OWN, frame)
    assert (whole.tokens == len(frame.ids)) is shares
