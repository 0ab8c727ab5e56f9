"""Measures a model on held-out lines, every arm at the same cursors, and what prompts cost as these are typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation import heuristic
from efim_lab.gate.evaluation.arms import ARMS, EFIM, FIM, SERVER
from efim_lab.gate.evaluation.measured_model import LINE, MeasuredModel
from efim_lab.gate.evaluation.places.cursors import Context, CursorPlace, choose_places
from efim_lab.gate.evaluation.report import HEURISTIC, CompletionSample, HeldOutReport, arm_figures, exact_difference
from efim_lab.gate.simulation import simulate_prefill
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.kv.sequence import TokenSequence
from model_runtime.prompt.prompt import Prompt

Progress = Callable[[str, int, int], None]  # (the measurement, places done, places in all)
LONGEST_COMPLETION = 96  # tokens
SAMPLES = 10
COUNTED = tuple(arm for arm in ARMS if arm.chooser == "model")  # the other arms share the prompts of one of these


def silent(_what: str, _done: int, _all: int) -> None:
    """Report no progress."""


def measure(
    folder: Path, documents: Sequence[CodeDocument], lines: int = 1000, progress: Progress = silent
) -> HeldOutReport:
    """Measure the model in `folder` at up to `lines` places determined by the documents.

    Raises WorkError if the documents have no line of code, ModelError if the model cannot be loaded.
    """
    places = places_in(documents, lines)
    subject, name = MeasuredModel(folder), model_name(folder)
    completions, bits, costs = _asked(subject, places, lambda done: progress(name, done, len(places)))
    completions = {HEURISTIC: [heuristic.complete(place.context) for place in places]} | completions
    return HeldOutReport(
        model=name,
        lines=len(places),
        arms={
            arm: arm_figures(places, found, bits.get(arm), costs.get(arm, ())) for arm, found in completions.items()
        },
        efim_minus_fim=exact_difference(places, completions[EFIM.name], completions[FIM.name]),
        samples=_samples(places, completions[SERVER.name]),
    )


def places_in(documents: Sequence[CodeDocument], lines: int) -> list[CursorPlace]:
    """Choose up to `lines` places determined by the documents; raises WorkError if these have no line of code."""
    places = choose_places(documents, lines)
    if not places:
        raise WorkError("the data has no line of code: name a heldout.jsonl or a folder of .py files")
    return places


def model_name(folder: Path) -> str:
    """Return a model's name in reports."""
    return "embedded" if folder == EMBEDDED else str(folder)


def _asked(
    subject: MeasuredModel, places: Sequence[CursorPlace], progress: Callable[[int], None]
) -> tuple[dict[str, list[str]], dict[str, list[float]], dict[str, list[list[int]]]]:
    """Return, by arm and place: completions, bits of the lines' rests, and the tokens recomputed at each key.

    All arms are measured at one place before the next, because their prompts share a prefix, computed once.
    """
    arms = [arm for arm in ARMS if subject.can(arm)]
    completions = {arm.name: list[str]() for arm in arms}
    bits = {arm.name: list[float]() for arm in arms if arm.has_bits}
    costs = {arm.name: list[list[int]]() for arm in COUNTED}
    for done, place in enumerate(places):
        progress(done)
        rest = subject.encode(place.rest)
        room = max(LONGEST_COMPLETION, len(rest))
        for arm, prompt in zip(arms, subject.prompts(place.context, arms, room), strict=True):
            completions[arm.name].append(subject.complete(arm, prompt, LINE, LONGEST_COMPLETION))
            if arm.has_bits:
                bits[arm.name].append(subject.bits(prompt, rest))
        for name, line in retype(subject, place.context, room).items():
            costs[name].append(line)
    progress(len(places))
    return completions, bits, costs


def _samples(places: Sequence[CursorPlace], completions: Sequence[str]) -> tuple[CompletionSample, ...]:
    """Return the first ten places as samples, not hand-picked."""
    first = zip(places[:SAMPLES], completions, strict=False)
    return tuple(CompletionSample(place.context.typed, place.rest, completion) for place, completion in first)


def retype(subject: MeasuredModel, context: Context, room: int) -> dict[str, list[int]]:
    """Count, without a model, the tokens recomputed at each key of a cursor's line, by arm.

    Prompts leave `room` tokens.
    """
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
