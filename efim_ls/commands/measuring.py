"""The commands that measure: `eval`, how well models complete, and `bench`, published experiments run here."""

from __future__ import annotations

import argparse
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from efim_ls.commands.arguments import Failure, Mistake, whole_number

DATA = "a heldout.jsonl of `train corpus`, or a folder of .py files"
PAPER_NUMBERS = (
    ("--users", 16, "users who ask at the same time"),
    ("--rounds", 5, "requests of each user, one after the other"),
    ("--tokens", 128, "new tokens of each answer"),
)  # name, default (the paper's), help


def add_eval(measure: argparse.ArgumentParser) -> None:
    """Say what `eval` takes."""
    measure.add_argument("--data", type=Path, required=True, metavar="PATH", help=DATA)
    models = "default: the embedded model; several are shown side by side"
    measure.add_argument("--model", metavar="MODEL", action="append", default=[], help=models)
    at_least_one = partial(whole_number, 1)
    measure.add_argument("--lines", type=at_least_one, default=1000, metavar="N", help="lines to complete (1000)")
    folder = "run the programs of HumanEval-Infilling's files, too"
    measure.add_argument("--humaneval", type=Path, metavar="DIR", help=folder)
    measure.set_defaults(run=_eval)


def add_bench(bench: argparse.ArgumentParser) -> None:
    """Say what `bench` takes: the name of an experiment, and what that takes."""
    experiments = bench.add_subparsers(metavar="EXPERIMENT", required=True)
    paper = experiments.add_parser("efim-paper", help="EFIM's (arXiv 2505.21889): no reuse, FIM and EFIM compared")
    # Every Python has asyncio, and the embedded model has not seen it.
    asyncio = Path(sysconfig.get_path("stdlib"), "asyncio")
    where = f"{DATA}; default: Python's own asyncio"
    paper.add_argument("--data", type=Path, default=asyncio, metavar="PATH", help=where)
    paper.add_argument("--model", metavar="MODEL", default="", help="default: the embedded model")
    for name, default, text in PAPER_NUMBERS:
        number = partial(whole_number, 1)
        paper.add_argument(name, type=number, default=default, metavar="N", help=f"{text} ({default})")
    paper.add_argument("--json", action="store_true", help="print a JSON object as the last line, too")
    paper.set_defaults(run=_efim_paper)


def _eval(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub.names import folder_here

    with _extra():
        from efim_lab.evaluation.command import run

    with _complaints():
        folders = [folder_here(name) for name in arguments.model or [""]]
        run(arguments.data, folders, arguments.lines, arguments.humaneval)
    return 0


def _efim_paper(arguments: argparse.Namespace) -> int:
    from efim_ls.paths import SPEED, cache_folder
    from model_runtime.checkpoint.hub.names import folder_here

    with _extra():
        from efim_lab.paper.command import Size, run

    size = Size(arguments.users, arguments.rounds, arguments.tokens)
    with _complaints():
        run(arguments.data, folder_here(arguments.model), size, cache_folder("") / SPEED, arguments.json)
    return 0


@contextmanager
def _extra() -> Generator[None]:
    """Say what to install where measuring cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Failure(f"{error.name} is not installed: run pip install '.[train]' in a clone of efim-ls") from error


@contextmanager
def _complaints() -> Generator[None]:
    """Turn what is wrong with a user's data or model into one line."""
    from model_runtime.errors import ModelError, WorkError

    try:
        yield
    except WorkError as error:
        raise Mistake(str(error)) from error
    except ModelError as error:
        raise Failure(str(error)) from error
