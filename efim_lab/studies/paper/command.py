"""`bench efim-paper`: runs the experiment and prints its table."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress

from efim_lab.gate.evaluation import held_out_data
from efim_lab.gate.evaluation.held_out import model_name
from efim_lab.studies.paper import texts
from efim_lab.studies.paper.experiment import REPEATS, Prompts, measure
from efim_lab.studies.paper.prompts import FIM_REUSE, SCHEMES, cut_workload
from efim_lab.studies.paper.report import ExperimentSetup, as_json, table
from efim_lab.studies.paper.runtime import load_runtime
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_checkpoint


class ExperimentSize(NamedTuple):
    """The number of users, of requests by each, and of tokens in each answer."""

    users: int
    rounds: int
    tokens: int


def run_experiment(source: Path, folder: Path, size: ExperimentSize, print_json: bool) -> None:
    """Measure the model in `folder` on the code in `source`; print a table and, if asked, JSON as the last line.

    Raises WorkError if the data and ModelError if the model is unsuitable.
    """
    config = read_config(folder)
    longest = texts.longest(config.context, size.tokens)
    prompts = _prompts(source, folder, size, longest)
    lengths = [len(ids) for asked in prompts[FIM_REUSE] for ids in asked]
    capacity = _capacity(config, prompts, size.tokens)
    device, runtime = load_runtime(folder, capacity, size.users * len(SCHEMES))
    with _bar(REPEATS * len(SCHEMES) * len(lengths)) as answered:
        found = measure(runtime.decoder, runtime.arena, prompts, size.tokens, answered)
    setup = ExperimentSetup(
        model=model_name(folder),
        device=device,
        decoder=f"{runtime.weights} {runtime.name}",
        data=str(source),
        users=size.users,
        rounds=size.rounds,
        tokens=size.tokens,
        longest=longest,
        prompt_tokens=mean(lengths),
        context=config.context,
    )
    Console(width=120).print(table(setup, found))
    if print_json:
        print(json.dumps(as_json(setup, found)))


def _prompts(source: Path, folder: Path, size: ExperimentSize, longest: int) -> Prompts:
    _, _, tokenizer, template, _ = read_checkpoint(folder)
    works = [
        cut_workload(text, size.rounds)
        for text in texts.choose_texts(held_out_data.read_held_out(source), tokenizer, size.users, longest)
    ]
    return {scheme: [scheme.prompts(tokenizer, template, work) for work in works] for scheme in SCHEMES}


def _capacity(config: ModelConfig, prompts: Prompts, tokens: int) -> int:
    """Return the tokens that an arena must hold; the last token of an answer is never computed."""
    every = [ids for users in prompts.values() for asked in users for ids in asked]
    capacity = max(len(ids) for ids in every) + tokens - 1
    if capacity > config.context:
        raise ModelError(
            f"a prompt and its answer take {capacity:,} tokens of the model's {config.context:,}: lower --tokens"
        )
    return capacity


@contextmanager
def _bar(requests: int) -> Generator[Callable[[int], None]]:
    """Show how many requests have been answered, on terminals only."""
    console = Console(file=sys.stdout)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("requests answered", total=requests)
        yield lambda answers: progress.advance(task, answers)
