"""The gate's part of the command line: the verbs that judge a change, which `python -m efim_lab` has among others.

What a verb needs is imported when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

from collections.abc import Sequence

from efim_lab.gate.commands.evaluate import add_eval
from efim_lab.gate.commands.next_edit import add_next_edit
from efim_lab.gate.commands.replay import add_replay
from efim_lab.gate.commands.team import add_team
from efim_ls.commands.arguments import Parser, epilog, run_command

PROGRAM = "python -m efim_lab"
VERBS = {"eval": add_eval, "replay": add_replay, "team": add_team, "next-edit": add_next_edit}
EXAMPLES = epilog(f"{PROGRAM} eval --data src", f"{PROGRAM} replay session.json.gz")


def main(argv: Sequence[str]) -> int:
    """Run a verb; return 0 on success, 2 on a user's mistake, 1 on any other failure."""
    return run_command(PROGRAM, build_parser().parse_args(argv))


def build_parser() -> Parser:
    """Return the parser of the gate's verbs."""
    parser = Parser(PROGRAM, description="Measure what a change of efim-ls gives and costs.", epilog=EXAMPLES)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for add in VERBS.values():
        add(verbs)
    return parser
