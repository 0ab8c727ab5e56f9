"""The one order of a prompt's parts, and what follows from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from model_runtime.ids import Ids
from model_runtime.prompt.prompt import LaidOut, Prompt, PromptPart, order_parts
from model_runtime.prompt.template import Template
from model_runtime.sequence_key import Mask

EFIM = Template((1,), (2,), (3,), bos=(0,))
SPM = replace(EFIM, tail_first=True)
MARKED = LaidOut(
    front=(PromptPart("signatures", np.array([4], np.int32)), PromptPart("imports", np.array([5], np.int32))),
    inside=(PromptPart("marker", np.array([6], np.int32)),),
    behind=(PromptPart("similar", np.array([7], np.int32)),),
)
ISOLATED = (
    PromptPart("signatures", np.array([4, 5], np.int32), sees_excerpts=False, origin="file:///a.py"),
    PromptPart("similar", np.array([7], np.int32), sees_excerpts=False, origin="file:///b.py"),
)


def texts() -> tuple[Ids, Ids, Ids]:
    head, tail, typed = (np.array(ids, dtype=np.int32) for ids in ([10, 11], [20], [30]))
    return head, tail, typed


def prompt(template: Template, excerpts: LaidOut) -> Prompt:
    return Prompt(order_parts(template, *texts(), context=excerpts), b"", np.zeros(0, dtype=np.int32))


def all_ids(made: Prompt) -> list[int]:
    return np.concatenate([part.ids for part in made.parts]).tolist()


def test_excerpts_stand_before_the_window_in_it_and_behind_its_tail() -> None:
    assert prompt(EFIM, MARKED).ids.tolist() == [0, 4, 5, 1, 6, 10, 11, 2, 20, 7, 3, 30]
    assert prompt(SPM, MARKED).ids.tolist() == [0, 4, 5, 2, 20, 1, 6, 10, 11, 7, 3, 30]


def test_excerpts_in_the_window_are_hidden_from_nothing() -> None:
    made = prompt(EFIM, MARKED)
    assert (made.before_excerpts, made.apart.tokens, made.tokens) == (0, 0, len(made.ids))


@pytest.mark.parametrize("template", [EFIM, SPM], ids=["efim", "spm"])
@pytest.mark.parametrize("mask", ["typed", "head"])
def test_isolated_excerpts_stand_where_they_are_seen_from(template: Template, mask: Mask) -> None:
    window = prompt(template, LaidOut()).ids.tolist()
    made = prompt(template, LaidOut(apart=ISOLATED, mask=mask))
    before = 6 if mask == "typed" else 0
    assert made.before_excerpts == made.apart.before_excerpts == before
    assert all_ids(made) == [*window[:before], 4, 5, 7, *window[before:]]
    assert made.ids.tolist() == window
    assert made.tokens == len(window) + made.apart.tokens == len(window) + 3
    assert made.origins == ("file:///a.py", "file:///b.py")
    seeing = [i for part in made.parts if part.sees_excerpts for i in part.ids.tolist()]
    assert seeing == window[before:]


def test_a_size_is_that_of_all_parts_of_a_name() -> None:
    made = prompt(EFIM, MARKED)
    sizes = {name: made.size(name) for name in ("marker", "signatures", "head", "tail", "typed")}
    assert sizes == {"marker": 5, "signatures": 1, "head": 2, "tail": 1, "typed": 1}
