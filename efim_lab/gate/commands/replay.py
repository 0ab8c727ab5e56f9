"""`python -m efim_lab replay`: parses its arguments and counts or replays a recorded session."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import whole_number
from efim_ls.commands.arguments import MODEL, Parser, add_command, check_file, check_model
from efim_ls.failures import Failure, Mistake

if TYPE_CHECKING:
    from efim_lab.gate.replay.report import KeystrokeRow
    from efim_lab.gate.replay.trace import Trace
    from efim_ls.commands.arguments import Subparsers
    from efim_ls.completion.planning.window import Budget

POLICIES = ("none", "psm", "spm", "efim-paper", "efim")
REPLAY_NUMBERS = (
    ("--skip", 0, 0, "apply the first N transactions without asking for completions (default: 0)"),
    ("--limit", 0, None, "stop after N requests (default: never)"),
    ("--head", 1, 1536, "at most N tokens before the anchor, and a quarter as many after it (default: 1536)"),
    ("--snapshots", 0, 0, "with --count-only: layers have states, of which a file keeps N (default: none)"),
)  # name, least, default, help


def add_replay(commands: Subparsers) -> Parser:
    """Add `replay`; return its parser, to which a study may add."""
    summary = "replay a recorded editing session and report what keystrokes cost"
    details = "Every key of the recording is typed into a real server, or only counted."
    lines = (
        "python -m efim_lab replay session.json.gz --limit 1000",
        "python -m efim_lab replay session.json.gz --policy psm --json",
    )
    replay = add_command(commands, "replay", summary, *lines, details=details)
    replay.add_argument("trace", metavar="TRACE", type=Path, help="a recorded session: JSON, plain or gzipped")
    policy = "no reuse, FIM in PSM or SPM order, EFIM as published, or this server's EFIM (default: efim)"
    replay.add_argument("--policy", choices=POLICIES, default="efim", help=policy)
    for name, least, default, text in REPLAY_NUMBERS:
        replay.add_argument(name, type=partial(whole_number, least), default=default, metavar="N", help=text)
    replay.add_argument("--count-only", action="store_true", help="count tokens without running a model")
    replay.add_argument("--json", action="store_true", help="print one JSON object")
    replay.add_argument("--model", metavar="MODEL", default="", help=MODEL)
    replay.set_defaults(run=_replay)
    return replay


def _replay(arguments: argparse.Namespace) -> int:
    show_rows(arguments.policy, _replayed(arguments, read_part(arguments)), arguments.json)
    return 0


def show_rows(name: str, rows: Sequence[KeystrokeRow], as_json: bool) -> None:
    """Print the figures of keystrokes, as a table or as one JSON object; raises Mistake if there are none."""
    from efim_lab.gate.replay import report

    if not rows:
        raise Mistake("the trace has no keystroke left to replay: lower --skip or raise --limit")
    figures = report.summary(name, rows)
    if as_json:
        print(json.dumps(figures))
    else:
        report.show(figures)


def read_part(arguments: argparse.Namespace) -> Trace:
    """Read the part of a recording that `--skip` and `--limit` leave; raises Mistake if it is none."""
    from efim_lab.gate.replay import trace

    return trace.part(read_trace(arguments.trace), arguments.skip, arguments.limit)


def budget_of(head: int) -> Budget:
    """Return the budget of a server whose setting head_tokens is this."""
    from efim_ls.completion.planning.window import Budget
    from efim_ls.settings import Settings

    return Budget(head, Settings(head_tokens=head).tail_tokens)


def read_trace(path: Path) -> Trace:
    """Read a recording; raises Mistake if it is none."""
    from efim_lab.gate.replay import trace

    check_file(path)
    try:
        return trace.read(path)
    except trace.TraceError as error:
        raise Mistake(f"{path} cannot be replayed: {error}") from error


def _replayed(arguments: argparse.Namespace, recorded: Trace) -> list[KeystrokeRow]:
    """Return a row for every keystroke: counted, from the server or, for other policies, from the engine alone."""
    check_model(arguments.model)
    from editor_clients.headless.connection import ServerError
    from efim_lab.gate.replay.baseline import baseline_rows
    from efim_lab.gate.replay.player import replay
    from efim_lab.gate.replay.policies import count_rows
    from efim_lab.gate.replay.trace import keystrokes
    from efim_ls.settings import Settings
    from model_runtime.checkpoint.hub_names import model_folder
    from model_runtime.errors import ModelError

    settings = {"model": arguments.model, "head_tokens": arguments.head}
    try:
        if arguments.count_only:
            budget, folder = budget_of(arguments.head), model_folder(arguments.model)
            return list(count_rows(keystrokes(recorded), arguments.policy, budget, folder, arguments.snapshots))
        if arguments.snapshots:
            raise Mistake("snapshots are only counted: add --count-only")
        if arguments.policy == "efim":
            return replay(recorded, arguments.trace.name, settings)
        return list(baseline_rows(keystrokes(recorded), arguments.policy, Settings(**settings)))
    except (ModelError, ServerError) as error:
        raise Failure(str(error)) from error
