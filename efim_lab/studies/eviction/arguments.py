"""`python -m efim_lab bench eviction`: parses its arguments, and replays a repository's history."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import extra_required, whole_number, work_errors
from efim_ls.commands.arguments import add_command

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers

DOUBLED = 1300  # tokens, as the embedded model was measured


def add_eviction(experiments: Subparsers) -> None:
    """Add `bench eviction`."""
    summary = "replay a repository's history to see what a tier that a team shares should keep"
    details = (
        "Each change of a source file reads its blocks as they were, and adds the new ones; four bytes of text stand "
        "for a token. The last line is one JSON object."
    )
    eviction = add_command(experiments, "eviction", summary, "python -m efim_lab bench eviction .", details=details)
    where = "a git repository with its whole history"
    eviction.add_argument("repository", type=Path, metavar="REPOSITORY", help=where)
    doubled = f"how deep a token costs twice what the first one does, in tokens (default: {DOUBLED:,})"
    number = partial(whole_number, 1)
    eviction.add_argument("--doubled", type=number, default=DOUBLED, metavar="N", help=doubled)
    eviction.set_defaults(run=_eviction)


def _eviction(arguments: argparse.Namespace) -> int:
    with extra_required("train"):
        from efim_lab.studies.eviction.command import run_eviction

    with work_errors():
        run_eviction(arguments.repository, arguments.doubled)
    return 0
