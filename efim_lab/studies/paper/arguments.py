"""`python -m efim_lab bench efim-paper`: parses its arguments, and repeats the paper's experiment."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import DATA, check_data, check_models, extra_required, whole_number, work_errors
from efim_lab.studies.examples import ASYNCIO
from efim_ls.commands.arguments import add_command

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers

NUMBERS = (
    ("--users", 16, "users who ask at the same time"),
    ("--rounds", 5, "requests of each user, one after the other"),
    ("--tokens", 128, "new tokens in each answer"),
)  # name, default (the paper's), help


def add_paper(experiments: Subparsers) -> None:
    """Add `bench efim-paper`."""
    summary = "repeat the experiment of EFIM's paper (arXiv 2505.21889): no KV reuse, FIM, EFIM"
    paper = add_command(
        experiments, "efim-paper", summary, "python -m efim_lab bench efim-paper --users 4 --rounds 3"
    )
    where = f"{DATA} (default: Python's own asyncio)"
    paper.add_argument("--data", type=Path, default=ASYNCIO, metavar="PATH", help=where)
    paper.add_argument("--model", metavar="MODEL", default="", help="the model (default: the embedded model)")
    for name, default, text in NUMBERS:
        number = partial(whole_number, 1)
        paper.add_argument(name, type=number, default=default, metavar="N", help=f"{text} (default: {default})")
    paper.add_argument("--json", action="store_true", help="also print one JSON object as the last line")
    paper.set_defaults(run=_efim_paper)


def _efim_paper(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub_names import model_folder

    check_data(arguments.data)
    check_models([arguments.model])
    with extra_required("train"):
        from efim_lab.studies.paper.command import ExperimentSize, run_experiment

    size = ExperimentSize(arguments.users, arguments.rounds, arguments.tokens)
    with work_errors():
        run_experiment(arguments.data, model_folder(arguments.model), size, arguments.json)
    return 0
