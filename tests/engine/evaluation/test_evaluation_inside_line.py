"""Suggestions before code, measured through the engine: what each way asks and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation import inside_line
from efim_lab.gate.evaluation.arms import Arm
from efim_lab.gate.evaluation.inside_line import SERVED, UNCUT, WITH_REST, choose_holes
from efim_lab.gate.evaluation.measured_model import LINE
from efim_lab.gate.evaluation.places.cursors import Context
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.engine.stops import StopRule, stop_rule
from tests.models import CODE

DOCUMENTS = [CodeDocument("a.py", CODE)]


class Knowing:
    """Says a hole's span and the code after it where that code is left out of the prompt, else something else."""

    asked: list[tuple[Context, StopRule]] = []

    def __init__(self, _folder: Path) -> None:
        self.asked.clear()

    def prompts(self, context: Context, _arms: Sequence[Arm], _room: int) -> list[Context]:
        return [context]

    def complete(self, _arm: Arm, prompt: Context, rule: StopRule, _limit: int) -> str:
        self.asked.append((prompt, rule))
        return f"{SPANS[prompt]}{rule.rest[:4]}" if prompt in SPANS else "no such thing"


CHOSEN = choose_holes(DOCUMENTS, 5)
SPANS = {hole.context: hole.span for hole in CHOSEN}


def test_each_suggestion_counts_for_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_line, "MeasuredModel", Knowing)
    steps: list[tuple[str, int, int]] = []
    report = inside_line.measure(EMBEDDED, DOCUMENTS, 5, lambda *step: steps.append(step))
    assert (report.holes, steps) == (5, [("embedded, inside a line", done, 5) for done in range(6)])
    assert [report.ways[way].exact.value for way in (UNCUT, WITH_REST, SERVED)] == [0.0, 0.0, 1.0]
    assert [report.ways[way].shown.value for way in (UNCUT, WITH_REST, SERVED)] == [1.0, 0.0, 1.0]
    for hole, (with_rest, line), (without, rule) in zip(CHOSEN, Knowing.asked[::2], Knowing.asked[1::2], strict=True):
        assert (with_rest.head, with_rest.typed) == (hole.context.head, hole.context.typed)
        assert with_rest.tail == f"{hole.rest}\n{hole.context.tail}"
        assert without == hole.context
        assert (line, rule) == (LINE, stop_rule(hole.context.typed, hole.rest, False, 1))


def test_the_rest_in_the_prompt_is_cut_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class SayingAll(Knowing):
        def complete(self, _arm: Arm, prompt: Context, rule: StopRule, _limit: int) -> str:
            (hole,) = (hole for hole in CHOSEN if hole.context.typed == prompt.typed)
            return hole.span + hole.rest

    monkeypatch.setattr(inside_line, "MeasuredModel", SayingAll)
    report = inside_line.measure(EMBEDDED, DOCUMENTS, 5)
    assert [report.ways[way].exact.value for way in (UNCUT, WITH_REST, SERVED)] == [0.0, 1.0, 1.0]


def test_a_model_is_measured(folder: Path) -> None:
    report = inside_line.measure(folder, DOCUMENTS, 3)
    assert (report.holes, list(report.ways)) == (3, [UNCUT, WITH_REST, SERVED])
    assert inside_line.measure(folder, DOCUMENTS, 3) == report
