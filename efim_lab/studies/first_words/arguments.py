"""`python -m efim_lab bench first-words`: parses its arguments, and prints a table for each model."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import check_models, extra_required, whole_number, work_errors
from efim_ls.commands.arguments import add_command

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers


def add_first_words(experiments: Subparsers) -> None:
    """Add `bench first-words`."""
    summary = "type the first letters of names, behind a dot and of keywords: which first word is shown"
    details = "Each folder of the data is a repository, which the server knows. The last line is one JSON object."
    line = "python -m efim_lab bench first-words packages --names 600"
    words = add_command(experiments, "first-words", summary, line, details=details)
    words.add_argument("data", type=Path, metavar="PATH", help="a heldout.jsonl, or a folder of packages")
    language = "the language of a folder's files (default: python)"
    words.add_argument("--language", default="python", metavar="LANGUAGE", help=language)
    model = "a model to measure; repeat it to compare several (default: the embedded model)"
    words.add_argument("--model", metavar="MODEL", action="append", default=[], help=model)
    names = "how many names of each kind (default: %(default)s)"
    words.add_argument("--names", type=partial(whole_number, 1), default=200, metavar="N", help=names)
    server = "also measure with the names that a language server of editors lists (gopls; clangd)"
    words.add_argument("--server", default="", metavar="COMMAND", help=server)
    words.set_defaults(run=_first_words)


def _first_words(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub_names import model_folder

    names = arguments.model or [""]
    check_models(names)
    with extra_required("train"):
        from efim_lab.studies.first_words.first_words import run_first_words

    with work_errors():
        folders = [*map(model_folder, names)]
        run_first_words(arguments.data, folders, arguments.names, arguments.language, arguments.server)
    return 0
