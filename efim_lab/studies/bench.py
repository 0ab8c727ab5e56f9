"""`python -m efim_lab bench`: parses the arguments of each experiment and runs it."""

from __future__ import annotations

import argparse
import sysconfig
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import DATA, check_data, check_models, extra_required, work_errors
from efim_lab.studies.eviction.arguments import add_eviction
from efim_lab.studies.prefill.arguments import add_plan
from efim_lab.studies.tiers.arguments import add_tiers
from efim_ls.commands.arguments import add_command, whole_number

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers

PAPER_NUMBERS = (
    ("--users", 16, "users who ask at the same time"),
    ("--rounds", 5, "requests of each user, one after the other"),
    ("--tokens", 128, "new tokens in each answer"),
)  # name, default (the paper's), help


def add_bench(commands: Subparsers) -> None:
    """Add `bench` and its experiments."""
    bench = add_command(commands, "bench", "run an experiment on this machine", "python -m efim_lab bench efim-paper")
    experiments = bench.add_subparsers(metavar="EXPERIMENT", required=True)
    summary = "repeat the experiment of EFIM's paper (arXiv 2505.21889): no KV reuse, FIM, EFIM"
    paper = add_command(
        experiments, "efim-paper", summary, "python -m efim_lab bench efim-paper --users 4 --rounds 3"
    )
    # Every Python has asyncio, and the embedded model was not trained on it.
    asyncio = Path(sysconfig.get_path("stdlib"), "asyncio")
    where = f"{DATA} (default: Python's own asyncio)"
    paper.add_argument("--data", type=Path, default=asyncio, metavar="PATH", help=where)
    paper.add_argument("--model", metavar="MODEL", default="", help="the model (default: the embedded model)")
    for name, default, text in PAPER_NUMBERS:
        number = partial(whole_number, 1)
        paper.add_argument(name, type=number, default=default, metavar="N", help=f"{text} (default: {default})")
    paper.add_argument("--json", action="store_true", help="also print one JSON object as the last line")
    paper.set_defaults(run=_efim_paper)
    _add_reuse(experiments, asyncio)
    add_tiers(experiments, asyncio / "base_events.py")
    add_plan(experiments)
    add_eviction(experiments)


def _add_reuse(experiments: Subparsers, asyncio: Path) -> None:
    summary = "measure keys and values that are composed of what moved, and context under a budget"
    details = "Every method is compared with full attention. The last line is one JSON object."
    lines = (
        "python -m efim_lab bench reuse --places 16",
        "python -m efim_lab bench reuse --data repositories --plot reuse.png",
    )
    reuse = add_command(experiments, "reuse", summary, *lines, details=details)
    where = (
        "a folder of Python packages, or a heldout.jsonl written by `train corpus` (default: Python's own asyncio)"
    )
    reuse.add_argument("--data", type=Path, default=asyncio, metavar="PATH", help=where)
    reuse.add_argument("--model", metavar="MODEL", default="", help="the model (default: the embedded model)")
    places, number = "how many cursors to measure at (default: 32)", partial(whole_number, 1)
    reuse.add_argument("--places", type=number, default=32, metavar="N", help=places)
    tuned = "a model that was tuned from the other one: measure what it makes of that one's keys and values"
    reuse.add_argument("--tuned", metavar="MODEL", help=tuned)
    reuse.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures to this PNG file")
    reuse.set_defaults(run=_reuse)


def _efim_paper(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub.names import model_folder

    check_data(arguments.data)
    check_models([arguments.model])
    with extra_required():
        from efim_lab.studies.paper.command import ExperimentSize, run_experiment

    size = ExperimentSize(arguments.users, arguments.rounds, arguments.tokens)
    with work_errors():
        run_experiment(arguments.data, model_folder(arguments.model), size, arguments.json)
    return 0


def _reuse(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub.names import model_folder

    check_data(arguments.data)
    check_models([arguments.model, *([arguments.tuned] if arguments.tuned else [])])
    with extra_required():
        from efim_lab.studies.reuse.command import run_reuse

    tuned = model_folder(arguments.tuned) if arguments.tuned else None
    with work_errors():
        run_reuse(arguments.data, model_folder(arguments.model), arguments.places, arguments.plot, tuned)
    return 0
