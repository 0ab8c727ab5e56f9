"""`python -m efim_lab team`: parses its arguments and lets many people type at one server."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from efim_lab.gate.commands.checks import check_models, whole_number, work_errors
from efim_lab.gate.commands.replay import budget_of, read_trace
from efim_ls.commands.arguments import MODEL, Parser, add_command
from efim_ls.failures import Failure

if TYPE_CHECKING:
    from efim_lab.gate.team.people import PersonKey
    from efim_ls.commands.arguments import Subparsers

NUMBERS = (
    ("--users", 1, 32, "how many people type at once"),
    ("--keys", 1, 50, "how many keys each of them types"),
    ("--tokens", 1, 8, "how many new tokens each key asks for"),
    ("--head", 1, 1536, "at most N tokens before the anchor, and a quarter as many after it"),
)  # name, least, default, help


def add_team(commands: Subparsers) -> Parser:
    """Add `team`; return its parser."""
    from model_runtime.remote.setting import Kind

    summary = "replay recorded sessions of many people against one server, and report latency and cached tokens"
    details = (
        "People begin at places spread evenly over the recordings, and share no text on servers that keep tenants "
        "apart. Without --url, tokens are only counted, by the size of a server's blocks."
    )
    lines = (
        "python -m efim_lab team session.json.gz",
        "python -m efim_lab team session.json.gz --users 32 --url http://gpu-box:8000",
    )
    team = add_command(commands, "team", summary, *lines, details=details)
    team.add_argument(
        "traces", metavar="TRACE", type=Path, nargs="+", help="recorded sessions: JSON, plain or gzipped"
    )
    team.add_argument("--url", metavar="URL", default="", help="the server: vLLM, llama.cpp's or one like OpenAI's")
    kinds = [kind for kind in get_args(Kind) if kind]
    team.add_argument("--kind", choices=kinds, default="", help="what the server is (default: it is asked)")
    team.add_argument(
        "--served", metavar="NAME", default="", help="which of the server's models (default: its only one)"
    )
    team.add_argument("--key-file", metavar="FILE", default="", help="a file with the key that the server wants")
    team.add_argument("--model", metavar="MODEL", default="", help=f"whose tokenizer the server's model has: {MODEL}")
    for name, least, default, text in NUMBERS:
        kind = partial(whole_number, least)
        team.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} (default: {default})")
    pause = "seconds that each waits after an answer (default: 0)"
    team.add_argument("--pause", type=float, default=0.0, metavar="SECONDS", help=pause)
    team.add_argument("--json", action="store_true", help="also print one JSON object as the last line")
    team.set_defaults(run=_team)
    return team


def _team(arguments: argparse.Namespace) -> int:
    check_models([arguments.model])
    from efim_lab.gate.team.blocks import SIZES, count_blocks
    from efim_lab.gate.team.people import keys_a_minute, people_of
    from efim_lab.gate.team.report import show_blocks
    from model_runtime.checkpoint.hub_names import model_folder

    recordings = [read_trace(path) for path in arguments.traces]
    budget, folder = budget_of(arguments.head), model_folder(arguments.model)
    with work_errors():
        people = people_of(recordings, arguments.users, arguments.keys, budget, folder)
        figures = _asked(people, folder, arguments) if arguments.url else {}
    rows, a_minute = [count_blocks(people, size) for size in SIZES], keys_a_minute(recordings)
    show_blocks(rows, sum(map(len, people)), a_minute)
    if arguments.json:
        print(json.dumps(figures | {"blocks": [row._asdict() for row in rows], "keys_a_minute": a_minute}))
    return 0


def _asked(people: Sequence[Sequence[PersonKey]], folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    from efim_lab.gate.team.load import run_load
    from efim_lab.gate.team.report import show, summary
    from model_runtime.errors import EngineError
    from model_runtime.remote.setting import RemoteOptions

    options = RemoteOptions(
        url=arguments.url, kind=arguments.kind, model=arguments.served, key_file=arguments.key_file
    )
    try:
        run = run_load(people, options, folder, arguments.tokens, arguments.pause)
    except EngineError as error:
        raise Failure(str(error)) from error
    figures = summary(run, len(people))
    show(figures)
    return figures
