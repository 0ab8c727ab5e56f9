"""`python -m efim_lab next-edit`: parses its arguments and measures, or fits, the rules of next edits."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import whole_number, work_errors
from efim_ls.commands.arguments import Parser, add_command
from efim_ls.failures import Mistake

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers

COMMITS = 3000


def add_next_edit(commands: Subparsers) -> Parser:
    """Add `next-edit`; return its parser."""
    summary = "measure the next edits that rules offer, on histories of git repositories"
    details = (
        "If a commit makes the same change of tokens on three lines of a file, the third should be offered after the "
        "first two; if on exactly two lines, nothing should be offered. Changes that follow a template are judged in "
        "the same way, and so are changes of a definition's parameters, with or without changes of its calls. A file "
        "that lacks one of its imports tells which line needs it. The last line is one JSON object."
    )
    lines = ("python -m efim_lab next-edit flask click", "python -m efim_lab next-edit --fit flask")
    command = add_command(commands, "next-edit", summary, *lines, details=details)
    command.add_argument("repositories", metavar="REPOSITORY", type=Path, nargs="+", help="a folder, bare or not")
    text = f"look at the last N commits of each that change code (default: {COMMITS})"
    command.add_argument("--commits", type=partial(whole_number, 1), default=COMMITS, metavar="N", help=text)
    text = (
        "print, instead, the weights that efim_ls/next_edit/rules/confidence.py holds, fitted to these repositories"
    )
    command.add_argument("--fit", action="store_true", help=text)
    command.set_defaults(run=_next_edit)
    return command


def _next_edit(arguments: argparse.Namespace) -> int:
    from efim_lab.gate.next_edit.command import run_fit, run_measure

    for folder in arguments.repositories:
        if not folder.is_dir():
            raise Mistake(f"{folder} is no folder: name a git repository")
    with work_errors():
        (run_fit if arguments.fit else run_measure)(arguments.repositories, arguments.commits)
    return 0
