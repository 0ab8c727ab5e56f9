"""The arguments of `efim-ls calibrate`. Imports little: every start of the command line reads them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from efim_ls.commands.arguments import CACHE_FOLDER, Parser, access_errors, add_command, check_model
from efim_ls.failures import Mistake

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers


def add_calibrate(commands: Subparsers) -> Parser:
    """Add the command, without its model."""
    summary = "fit how many suggestions of a model are shown to your own code"
    details = (
        "Types lines of a folder with the model for some minutes, at low priority, and keeps how sure its guesses "
        "have to be: the weights of a rule, no text. Nothing leaves this machine."
    )
    lines = ("efim-ls calibrate --model ~/models/coder-Q4_K_M.gguf", "efim-ls calibrate src --minutes 10")
    calibrate = add_command(commands, "calibrate", summary, *lines, details=details)
    calibrate.add_argument(
        "place", type=Path, nargs="?", metavar="FOLDER", help="a folder with code (default: this one)"
    )
    calibrate.add_argument("--minutes", type=_minutes, metavar="N", default=3.0, help="to type for (default: 3)")
    calibrate.add_argument("--folder", metavar="DIR", default="", help=CACHE_FOLDER)
    calibrate.set_defaults(run=_calibrate)
    return calibrate


def _calibrate(arguments: argparse.Namespace) -> int:
    place = arguments.place or Path()
    if not place.is_dir():
        raise Mistake(f"{place} is not a folder: check the path")
    check_model(arguments.model)
    from efim_ls.commands.calibration import command  # a model's runtime takes a while to import
    from efim_ls.paths import cache_folder

    cache = cache_folder(arguments.folder)
    with access_errors(cache):
        return command.show(place, arguments.model, arguments.minutes, cache)


def _minutes(text: str) -> float:
    """Parse a positive number of minutes."""
    try:
        if 0 < (found := float(text)) < float("inf"):
            return found
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected a positive number of minutes, got {text!r}")
