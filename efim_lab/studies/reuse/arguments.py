"""`python -m efim_lab bench reuse`: parses its arguments, and measures keys and values that are composed."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import check_data, check_models, extra_required, whole_number, work_errors
from efim_lab.studies.examples import ASYNCIO
from efim_ls.commands.arguments import add_command

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers


def add_reuse(experiments: Subparsers) -> None:
    """Add `bench reuse`."""
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
    reuse.add_argument("--data", type=Path, default=ASYNCIO, metavar="PATH", help=where)
    reuse.add_argument("--model", metavar="MODEL", default="", help="the model (default: the embedded model)")
    places, number = "how many cursors to measure at (default: 32)", partial(whole_number, 1)
    reuse.add_argument("--places", type=number, default=32, metavar="N", help=places)
    tuned = "a model that was tuned from --model: measure how it completes on that model's keys and values"
    reuse.add_argument("--tuned", metavar="MODEL", help=tuned)
    reuse.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures to this PNG file")
    reuse.set_defaults(run=_reuse)


def _reuse(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub_names import model_folder

    check_data(arguments.data)
    check_models([arguments.model, *([arguments.tuned] if arguments.tuned else [])])
    with extra_required("train"):
        from efim_lab.studies.reuse.command import run_reuse

    tuned = model_folder(arguments.tuned) if arguments.tuned else None
    with work_errors():
        run_reuse(arguments.data, model_folder(arguments.model), arguments.places, arguments.plot, tuned)
    return 0
