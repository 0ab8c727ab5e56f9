"""`python -m efim_lab bench tiers`: parses its arguments, and measures what a shared cache saves."""

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


def add_tiers(experiments: Subparsers) -> None:
    """Add `bench tiers`."""
    summary = "measure first completions on a machine that shares a cache with another, which has computed the file"
    details = "A relay in front of the server makes links of several speeds. The last line is one JSON object."
    lines = (
        "python -m efim_lab bench tiers",
        "python -m efim_lab bench tiers --models Qwen/Qwen2.5-Coder-0.5B",
    )
    tiers = add_command(experiments, "tiers", summary, *lines, details=details)
    tiers.add_argument(
        "--models", metavar="MODEL", nargs="+", default=[""], help="the models (default: the embedded one)"
    )
    where = "the Python file that is opened (default: one of Python's own)"
    tiers.add_argument("--file", type=Path, default=ASYNCIO / "base_events.py", metavar="FILE", help=where)
    for name, default, text in (("--tokens", 2048, "tokens of the prompt"), ("--repeats", 3, "of each measurement")):
        kind = partial(whole_number, 1)
        tiers.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} (default: {default})")
    speeds = "gigabits a second of the links (default: 0.1 1 10)"
    tiers.add_argument("--gigabits", type=float, nargs="+", default=[0.1, 1.0, 10.0], metavar="N", help=speeds)
    server = "redis://HOST:PORT of a server (default: a redis-server is started)"
    tiers.add_argument("--url", metavar="URL", default="", help=server)
    tiers.add_argument("--plot", type=Path, metavar="FILE", help="draw the break-even to this PNG file")
    tiers.set_defaults(run=_tiers)


def _tiers(arguments: argparse.Namespace) -> int:
    check_data(arguments.file.parent)
    check_models(arguments.models)
    with extra_required("train"):
        from efim_lab.studies.tiers.command import TierBench, run_tiers

    bench = TierBench(arguments.file, arguments.tokens, arguments.repeats, arguments.gigabits)
    with work_errors():
        run_tiers(arguments.models, bench, arguments.url, arguments.plot)
    return 0
