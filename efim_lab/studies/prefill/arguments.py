"""`python -m efim_lab bench plan`: parses its arguments, and simulates or does shared prefill."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import check_models, extra_required, whole_number, work_errors
from efim_ls.commands.arguments import MODEL, add_command, check_file
from efim_ls.failures import Mistake

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers


def add_plan(experiments: Subparsers) -> None:
    """Add `bench plan`."""
    summary = "simulate cold prefill that several devices share, or do it with two processes"
    details = (
        "Devices share the prompt's tokens in even or uneven cuts (KV-Runahead), the model's layers (a pipeline), "
        "the keys, or, of models that keep latents, these. The last line is one JSON object."
    )
    lines = (
        "python -m efim_lab bench plan --plot plan.png",
        "python -m efim_lab bench plan --costs gpu.json --latency 5",
        "python -m efim_lab bench plan --real",
    )
    plan = add_command(experiments, "plan", summary, *lines, details=details)
    plan.add_argument("--model", metavar="MODEL", default="", help=f"whose passes are measured: {MODEL}")
    costs = (
        "take these costs instead, a JSON object: seconds of a `token` and of each `key` before it, `layers`, a "
        "pass's tokens (`chunk`), bytes of a token: `kv_bytes`, `hidden_bytes`, `partial_bytes`, `score_bytes`"
    )
    plan.add_argument("--costs", type=Path, metavar="FILE", help=costs)
    latency = "microseconds until a link's first bit arrives (default: 20)"
    plan.add_argument("--latency", type=partial(whole_number, 0), default=20, metavar="N", help=latency)
    real = "time a prompt in one process and in two of this machine instead, which must give the same bits"
    plan.add_argument("--real", action="store_true", help=real)
    plan.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures to this PNG file")
    plan.set_defaults(run=_plan)


def _plan(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub_names import model_folder

    if arguments.real and (arguments.costs is not None or arguments.plot is not None):
        raise Mistake("--real measures its own costs and draws nothing: leave out --costs and --plot, or --real")
    if arguments.costs is not None:
        check_file(arguments.costs)
    check_models([arguments.model])
    with extra_required("train"):
        from efim_lab.studies.prefill.plan import run_plan
        from efim_lab.studies.prefill.real import run_real

    with work_errors():
        if arguments.real:
            run_real(model_folder(arguments.model))
            return 0
        run_plan(model_folder(arguments.model), arguments.costs, 1e-6 * arguments.latency, arguments.plot)
    return 0
