"""The EFIM paper's experiment: what its answers add up to, and how that is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from efim_lab.studies.paper import experiment
from efim_lab.studies.paper.batch_server import Answer, BatchServer
from efim_lab.studies.paper.experiment import REPEATS, SchemeFigures, SchemeRun, measure, scheme_figures
from efim_lab.studies.paper.prompts import EFIM_REUSE, FIM_REUSE, NO_REUSE, SCHEMES
from efim_lab.studies.paper.report import ExperimentSetup, as_json, table
from model_runtime.decoder.decoder import Decoder
from model_runtime.kv.arena import DenseArena

SETUP = ExperimentSetup(
    "embedded", "CPU", "fp16 torch", "code", 16, 5, 128, longest=1885, prompt_tokens=1131.4, context=2048
)
FOUND = {
    NO_REUSE: SchemeFigures(latency=2.0, latency_p95=3.0, throughput=10.0, reused=0.0),
    FIM_REUSE: SchemeFigures(latency=1.5, latency_p95=2.5, throughput=12.5, reused=0.254),
    EFIM_REUSE: SchemeFigures(latency=0.5, latency_p95=1.0, throughput=25.0, reused=0.76),
}


def run_of(seconds: Sequence[float], whole: float, reused: int = 10) -> SchemeRun:
    return SchemeRun(tuple(Answer(0, 40, reused, each, (1,)) for each in seconds), whole)


def test_figures_are_medians_over_runs() -> None:
    runs = [run_of((1.0, 3.0), 4.0), run_of((5.0, 7.0), 1.0), run_of((2.0, 3.0), 2.0, reused=40)]
    found = scheme_figures(runs)
    assert (found.latency, found.throughput, found.reused) == (2.5, 1.0, 120 / 240)
    assert found.latency_p95 == pytest.approx(2.95)


def test_schemes_take_turns_pass_by_pass(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gaps = list[BatchServer](), list[int]()

    class Watched(BatchServer):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            begun.append(self)

        def step(self) -> int:
            new = super().step()
            said = [each.generated for each in begun[-3:]]
            gaps.append(max(said) - min(said) if len(begun) > 1 else 0)
            return new

    monkeypatch.setattr(experiment, "BatchServer", Watched)
    ids = np.arange(60, dtype=np.int32)
    prompts = {scheme: [[ids[:20], ids[:40]], [ids[9:50], ids[9:60]]] for scheme in SCHEMES}
    answers = list[int]()
    found = measure(decoder, lambda: DenseArena(decoder.config, 70), prompts, 7, answers.append)
    assert max(gaps) == 2  # users: no scheme is more than a pass ahead
    assert len(begun) == 1 + 3 * REPEATS
    assert sum(answers) == 3 * REPEATS * 4
    assert list(found) == list(SCHEMES)
    assert [each.reused > 0 for each in found.values()] == [False, True, True]
    assert all(each.latency > 0 and each.throughput > 0 for each in found.values())


def shown() -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table(SETUP, FOUND))
    return capture.get()


def test_the_table_shows_changes_beside_the_papers() -> None:
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown().splitlines()]
    rows = {name: figures for name, *figures in filter(None, cells)}
    assert rows == {
        "FIM, no reuse": ["2.00", "3.00", "", "", "10.00", "", "", "0%", ""],
        "FIM, prefix reuse": ["1.50", "2.50", "-25%", "-21%", "12.50", "+25%", "+26%", "25%", "< 40%"],
        "EFIM, prefix reuse": ["0.50", "1.00", "-75%", "-52%", "25.00", "+150%", "+98%", "76%", "about 80%"],
    }


def test_the_table_tells_what_was_measured() -> None:
    words = " ".join(shown().split())
    assert "16 users x 5 rounds, 128 new tokens each, medians of 3 runs" in words
    assert "model embedded, fp16 torch on CPU" in words
    assert (
        "texts of 942 to 1,885 tokens from code (the model's context is 2,048), prompts of 1,131 on average" in words
    )


def test_the_object_has_every_figure() -> None:
    found = json.loads(json.dumps(as_json(SETUP, FOUND)))
    assert (found["users"], found["model"], found["repeats"]) == (16, "embedded", 3)
    assert list(found["schemes"]) == [scheme.name for scheme in SCHEMES]
    assert found["schemes"]["EFIM, prefix reuse"] == {
        "latency": 0.5,
        "latency_p95": 1.0,
        "throughput": 25.0,
        "reused": 0.76,
        "latency_change": -0.75,
        "throughput_change": 1.5,
        "paper": {"latency": -0.52, "throughput": 0.98, "reused": "about 80%"},
    }
    assert found["schemes"]["FIM, no reuse"]["paper"] is None
