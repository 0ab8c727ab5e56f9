"""`python -m efim_lab replay --excerpts`: adds its argument, and counts layouts where it is given."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from efim_lab.gate.commands.replay import budget_of, read_part, show_rows
from efim_ls.commands.arguments import Parser, check_model
from efim_ls.failures import Mistake


def add_layouts(replay: Parser) -> None:
    """Add `--excerpts` to `replay`, which runs as before without it."""
    excerpts = (
        "with --count-only: show excerpts of other files as every part of this server's context and as other tools "
        "lay the same texts out, cut from the files of a folder or, without one, from the recording's last text"
    )
    replay.add_argument("--excerpts", nargs="?", const="", metavar="FOLDER", help=excerpts)
    replay.set_defaults(run=partial(_replay, replay.get_default("run")))


def _replay(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Count the recording's keystrokes in all layouts of the same excerpts."""
    if arguments.excerpts is None:
        return run(arguments)
    recorded = read_part(arguments)
    if not arguments.count_only:
        raise Mistake("excerpts are only counted: add --count-only")
    check_model(arguments.model)
    from efim_lab.studies.layouts.layouts import count_layouts
    from model_runtime.checkpoint.hub_names import model_folder

    if arguments.excerpts and not Path(arguments.excerpts).is_dir():
        raise Mistake(f"{arguments.excerpts} is no folder: name one with source files, or none")
    other = Path(arguments.excerpts) if arguments.excerpts else None
    budget, folder = budget_of(arguments.head), model_folder(arguments.model)
    for layout, rows in count_layouts(recorded, budget, folder, other):
        show_rows(layout, rows, arguments.json)
    return 0
