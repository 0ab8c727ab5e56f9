"""The command line `python -m efim_lab`: reads arguments and starts one verb.

What a verb needs is imported when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from efim_lab.gate.commands.evaluate import add_eval
from efim_lab.gate.commands.next_edit import add_next_edit
from efim_lab.gate.commands.replay import add_replay
from efim_lab.gate.commands.team import add_team
from efim_lab.studies.bench import add_bench
from efim_ls.commands.arguments import Parser, add_command, epilog, run_command

PROGRAM = "python -m efim_lab"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; return 0 on success, 2 on a user's mistake, 1 on any other failure."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["train"]:
        from efim_lab.workshop.training.command import main as train

        return train(list(argv[1:]))
    return run_command(PROGRAM, build_parser().parse_args(argv))


def build_parser() -> Parser:
    """Return the parser of all verbs but `train`, which parses its own arguments."""
    about = "Train models and measure them, in the folder of a clone of efim-ls."
    examples = epilog(f"{PROGRAM} eval --data src", f"{PROGRAM} replay session.json.gz")
    parser = Parser(PROGRAM, description=about, epilog=examples)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("train", help="train a model on your own code, or fine-tune an existing one", add_help=False)
    add_eval(verbs)
    add_replay(verbs)
    add_team(verbs)
    add_next_edit(verbs)
    add_bench(verbs)
    summary = "write the pages and the extension's settings that are made from the code"
    add_command(verbs, "docs", summary, f"{PROGRAM} docs").set_defaults(run=_docs)
    return parser


def _docs(_: argparse.Namespace) -> int:
    from efim_lab.gate.reference.files import write_files

    write_files(build_parser())
    return 0
