"""What keys cost: prompts of a line as it is typed, and the tokens that each has anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.evaluation.held_out import COUNTED, keys, recomputed, retype
from efim_lab.gate.evaluation.measured_model import MeasuredModel
from efim_lab.gate.evaluation.places.cursors import Context
from model_runtime.prompt.prompt import NO_IDS, Prompt, PromptPart
from model_runtime.prompt.tokenizer import Tokenizer

TEXT = st.text("ab _(=.é", max_size=30)


def prompt(*ids: int) -> Prompt:
    return Prompt((PromptPart("typed", np.array(ids, dtype=np.int32)),), b"", NO_IDS)


@given(TEXT, TEXT, st.integers(1, 200))
def test_the_line_grows_by_a_key_and_efims_cut_stays(above: str, typed: str, increment: int) -> None:
    context = Context(f"{above}\n", typed, "tail", increment)
    made = list(keys(context))
    assert made[-1] == context and len(made) == 1 + min(len(typed), increment)
    for before, now in zip(made, made[1:], strict=False):
        assert (now.head, now.tail, now.typed[:-1]) == (before.head, before.tail, before.typed)
    assert len({len(each.typed) - each.increment for each in made}) == 1
    assert made[0].increment == 0 or made[0].typed == ""


def test_a_prompt_costs_what_it_does_not_share_with_the_one_before() -> None:
    prompts = [prompt(1, 2, 3), prompt(1, 2, 3), prompt(1, 2, 3, 4), prompt(1, 9, 3, 4), prompt(1, 9), prompt(1, 9)]
    assert recomputed(prompts) == [0, 1, 3, 1, 0]  # what follows the middle of a prompt is not known without a pass


def test_every_arm_pays_for_its_own_prompts(folder: Path, tokenizer: Tokenizer) -> None:
    tail = "print(value)\n" * 5
    costs = retype(MeasuredModel(folder), Context("import os\n\n\n", "self.name", tail, 200), 96)
    assert costs.keys() == {arm.name for arm in COUNTED} and {len(line) for line in costs.values()} == {9}
    assert min(costs["FIM"]) > len(tokenizer.encode(tail)) > max(costs["EFIM line"]) > 0
    # Healed, keys inside a word cost nothing, and the word is paid for once: where the next one begins.
    *_, dot, n, a, m, e = costs["EFIM line healed"]
    assert (n, a, m, e) == (0, 0, 0, 0) or dot == 0
    assert sum(costs["EFIM line healed"]) == len(tokenizer.encode("self")) <= sum(costs["EFIM line"])
    assert costs["FIM healed"][-1] == 0 < costs["FIM"][-1]


def test_a_cursor_at_the_lines_start_has_no_keys(folder: Path) -> None:
    costs = retype(MeasuredModel(folder), Context("x = 1\n", "", "", 5), 96)
    assert costs == {arm.name: [] for arm in COUNTED}


@pytest.mark.parametrize("increment", [1, 4])
def test_typing_begins_at_efims_cut_inside_the_line(increment: int, folder: Path) -> None:
    costs = retype(MeasuredModel(folder), Context("x = 1\n", "value", "", increment), 96)
    assert {len(line) for line in costs.values()} == {increment}
