"""Counts, without a model, what prompts cost while the cursors' lines are typed key by key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from efim_lab.gate.evaluation.arms import ARMS
from efim_lab.gate.evaluation.measured_model import MeasuredModel
from efim_lab.gate.evaluation.places.cursors import Context
from efim_lab.gate.simulation import simulate_prefill
from model_runtime.kv.sequence import TokenSequence
from model_runtime.prompt.prompt import Prompt

COUNTED = tuple(arm for arm in ARMS if arm.chooser == "model")  # the other arms share the prompts of one of these


def retype(subject: MeasuredModel, context: Context, room: int) -> dict[str, list[int]]:
    """Count the tokens recomputed at each key of a cursor's line, by arm; prompts leave `room` tokens."""
    built = [subject.prompts(each, COUNTED, room) for each in keys(context)]
    by_arm = zip(COUNTED, zip(*built, strict=True), strict=True)
    return {arm.name: recomputed(prompts) for arm, prompts in by_arm}


def keys(context: Context) -> Iterable[Context]:
    """Yield the context before the first key of the line and after each; the cursor's own comes last.

    EFIM's cut stays in place while the text after it grows; if it lies inside the line, typing begins there.
    """
    for left in range(min(len(context.typed), context.increment), -1, -1):
        typed = context.typed[: len(context.typed) - left]
        yield replace(context, typed=typed, increment=context.increment - left)


def recomputed(prompts: Sequence[Prompt]) -> list[int]:
    """Count the tokens recomputed for each prompt after the first, reusing what earlier ones left behind."""
    sequence = TokenSequence(max(len(prompt.ids) for prompt in prompts))
    costs = [simulate_prefill(sequence, prompt.ids) for prompt in prompts]
    return costs[1:]
