"""The command line `python -m efim_lab`: the table of what the gate, the workshop and the studies offer.

It alone knows all three. What a verb needs is imported when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from efim_lab.gate.commands.cli import EXAMPLES, PROGRAM, VERBS
from efim_ls.commands.arguments import Parser, add_command, run_command

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; return 0 on success, 2 on a user's mistake, 1 on any other failure."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["train"]:
        from efim_lab.workshop.training.command import main as train

        return train(list(argv[1:]))
    return run_command(PROGRAM, build_parser().parse_args(argv))


def build_parser() -> Parser:
    """Return the parser of all verbs but `train`, which parses its own arguments."""
    from efim_lab.studies.layouts.arguments import add_layouts
    from efim_lab.studies.repository.arguments import add_repository

    about = "Train models and measure them, in the folder of a clone of efim-ls."
    parser = Parser(PROGRAM, description=about, epilog=EXAMPLES)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("train", help="train a model on your own code, or fine-tune an existing one", add_help=False)
    of_gate = {name: add(verbs) for name, add in VERBS.items()}
    add_repository(of_gate["eval"])
    add_layouts(of_gate["replay"])
    _add_bench(verbs)
    summary = "write the pages and the extension's settings that are made from the code"
    add_command(verbs, "docs", summary, f"{PROGRAM} docs").set_defaults(run=_docs)
    return parser


def _add_bench(verbs: Subparsers) -> None:
    """Add `bench` and its experiments."""
    from efim_lab.studies.eviction.arguments import add_eviction
    from efim_lab.studies.first_words.arguments import add_first_words
    from efim_lab.studies.paper.arguments import add_paper
    from efim_lab.studies.prefill.arguments import add_plan
    from efim_lab.studies.reuse.arguments import add_reuse
    from efim_lab.studies.tiers.arguments import add_tiers

    bench = add_command(verbs, "bench", "run an experiment on this machine", f"{PROGRAM} bench efim-paper")
    experiments = bench.add_subparsers(metavar="EXPERIMENT", required=True)
    for add in (add_paper, add_reuse, add_tiers, add_plan, add_eviction, add_first_words):
        add(experiments)


def _docs(_: argparse.Namespace) -> int:
    from efim_lab.gate.reference.files import write_files
    from efim_lab.laboratory_page import write_page

    write_files()
    write_page(build_parser())
    return 0
