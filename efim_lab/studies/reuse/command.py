"""`bench reuse`: measures composition and policies, prints tables, and one JSON object as the last line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation import held_out_data
from efim_lab.gate.evaluation.held_out import model_name
from efim_lab.studies.reuse.budgets import measure_budgets
from efim_lab.studies.reuse.methods.composition import measure_composition
from efim_lab.studies.reuse.methods.droidspeak import Pair, measure_pair
from efim_lab.studies.reuse.places import ReusePlace, choose_reuse_places
from efim_lab.studies.reuse.plot import draw
from efim_lab.studies.reuse.report import ReuseReport, as_json, pair_as_json, pair_table, summaries, tables
from efim_lab.studies.reuse.subject import ReuseSubject
from model_runtime.errors import ModelError

LEAST_CONTEXT = 2048  # tokens: excerpts, a window and a completion
TRAINING = 12  # places whose contexts the heads of Locret are trained on


def run_reuse(data: Path, folder: Path, places: int, picture: Path | None, tuned: Path | None = None) -> None:
    """Measure the model in `folder` at cursors in the repositories of `data`; draw a `picture` if asked.

    If a `tuned` model is named, measure instead how it completes on the other model's keys and values.
    Raises WorkError if the data and ModelError if the model is unsuitable.
    """
    torch.set_num_threads(1)
    subject = ReuseSubject(folder)
    if subject.config.context < LEAST_CONTEXT:
        raise ModelError(
            f"a context of {subject.config.context} tokens is too short: use a model with {LEAST_CONTEXT:,}"
        )
    chosen = choose_reuse_places(held_out_data.read_held_out(data), places + TRAINING)
    if len(chosen) <= TRAINING:
        raise WorkError(f"{data} has {len(chosen)} cursors with enough text around them: name larger repositories")
    measured, training = chosen[:-TRAINING], chosen[-TRAINING:]
    if tuned is not None:
        _run_pair(data, Pair(subject, ReuseSubject(tuned)), measured, training)
        return
    with _bar(len(measured)) as progress:
        composition = measure_composition(subject, measured, progress("composition"))
        budgets = measure_budgets(subject, measured, training, progress("context under a budget"))
    report = ReuseReport(
        model=model_name(folder),
        data=str(data),
        places=len(measured),
        decoder=subject.decoder_name,
        composition=summaries(composition),
        budgets=summaries(budgets),
    )
    if picture is not None:
        draw(report, picture)
    print(tables(report) + "\n")
    print(json.dumps(as_json(report)))


def _run_pair(data: Path, pair: Pair, measured: Sequence[ReusePlace], training: Sequence[ReusePlace]) -> None:
    with _bar(len(measured)) as progress:
        found = summaries(measure_pair(pair, measured, training, progress("keys and values of the base")))
    print(pair_table(found, len(measured)) + "\n")
    print(json.dumps({"data": str(data), "places": len(measured), "pair": pair_as_json(found)}))


@contextmanager
def _bar(places: int) -> Generator[Callable[[str], Callable[[int], None]]]:
    """Show how many places have been measured, on terminals only."""
    console = Console(file=sys.stdout)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:

        def named(what: str) -> Callable[[int], None]:
            task = progress.add_task(what, total=places)
            return lambda done: progress.update(task, completed=done)

        yield named
