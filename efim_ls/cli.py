"""The command line: reads arguments and starts one thing.

What a command needs is imported when it runs: `--help` stays quick, and the server guards its stdout before
any library that might write to it is there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from efim_ls.commands import measuring
from efim_ls.commands.arguments import Failure, Mistake, Parser, port, whole_number
from efim_ls.version import installed_version

if TYPE_CHECKING:
    from efim_lab.replay.report import Row
    from efim_lab.replay.trace import Trace

MODEL = "a folder, or owner/name on the Hugging Face hub; default: the embedded model"
CACHE_FOLDER = "the setting cache_folder; default: the system's folder for caches"
POLICIES = ("none", "psm", "spm", "efim-paper", "efim")
REPLAY_NUMBERS = (
    ("--skip", 0, 0, "transactions applied silently first"),
    ("--limit", 0, None, "stop after N requests"),
    ("--head", 1, 1536, "most tokens before the anchor"),
    ("--tail", 1, 384, "most tokens after the cursor's line"),
)  # name, least, default, help

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 on success, 2 on a user's mistake, 1 on any other failure."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["train"]:
        return _train(argv[1:])
    arguments = _parser().parse_args(argv)
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except Failure as failure:
        print(f"efim-ls: {failure}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # nobody reads any more; without this the interpreter's last flush would complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> Parser:
    parser = Parser("efim-ls", description="Code completion that keeps a model's KV cache alive for every file.")
    parser.add_argument(
        "--version", action="version", version=f"efim-ls {installed_version('efim-ls') or '(not installed)'}"
    )
    parser.set_defaults(run=_serve, tcp=None)
    commands = parser.add_subparsers(metavar="COMMAND")
    serve = commands.add_parser("serve", help="the language server, on stdin and stdout (the default)")
    serve.add_argument("--tcp", type=port, metavar="PORT", help="listen on 127.0.0.1:PORT instead, for one client")
    headless = commands.add_parser("headless", help="JSON Lines on stdin and stdout, for scripts")
    headless.set_defaults(run=_headless)
    complete = commands.add_parser("complete", help="complete once, at a place in a file")
    complete.add_argument("place", metavar="FILE:LINE:COLUMN", help="counted from 1")
    complete.add_argument("--json", action="store_true", help="print text, costs and reason")
    complete.set_defaults(run=_complete)
    doctor = commands.add_parser("doctor", help="check model, machine and settings")
    doctor.set_defaults(run=_doctor)
    replay = commands.add_parser("replay", help="replay a recorded editing session and report its costs")
    _add_replay(replay)
    _add_cache(commands.add_parser("cache", help="what is kept on disk: list, check or remove it"))
    _add_stats(commands.add_parser("stats", help="what became of suggestions, by days and languages"))
    models = commands.add_parser("models", help="models that are known or on disk: what fits here, and what it costs")
    models.add_argument("--json", action="store_true", help="print one JSON object")
    models.set_defaults(run=_models)
    commands.add_parser("demo", help="watch a session in the terminal").set_defaults(run=_demo)
    measuring.add_eval(commands.add_parser("eval", help="measure how well models complete held-out code"))
    measuring.add_bench(commands.add_parser("bench", help="run a published experiment here"))
    commands.add_parser("train", help="train a model of your own code, or fine-tune another", add_help=False)
    for command in (headless, complete, doctor, replay):
        command.add_argument("--model", metavar="MODEL", default="", help=MODEL)
    return parser


def _add_replay(replay: argparse.ArgumentParser) -> None:
    replay.add_argument("trace", metavar="TRACE", type=Path, help="a trace: JSON, plain or gzipped")
    replay.add_argument("--policy", choices=POLICIES, default="efim", help="prompt order and reuse rules")
    for name, least, default, text in REPLAY_NUMBERS:
        replay.add_argument(name, type=partial(whole_number, least), default=default, metavar="N", help=text)
    replay.add_argument("--count-only", action="store_true", help="count tokens, run no model")
    replay.add_argument("--json", action="store_true", help="print one JSON object")
    replay.set_defaults(run=_replay)


def _add_cache(cache: argparse.ArgumentParser) -> None:
    cache.add_argument("what", choices=("ls", "verify", "clear"), help="list it, check it, remove it")
    cache.add_argument("--file", type=Path, metavar="FILE", help="clear what is kept of this file only")
    cache.add_argument("--folder", metavar="DIR", default="", help=CACHE_FOLDER)
    cache.set_defaults(run=_cache)


def _add_stats(stats: argparse.ArgumentParser) -> None:
    stats.add_argument("--json", action="store_true", help="print one JSON object")
    stats.add_argument("--clear", action="store_true", help="remove what was counted, and begin anew")
    stats.add_argument("--folder", metavar="DIR", default="", help=CACHE_FOLDER)
    stats.set_defaults(run=_stats)


def _serve(arguments: argparse.Namespace) -> int:
    from efim_ls.lsp.server import serve

    return serve(arguments.tcp)


def _headless(arguments: argparse.Namespace) -> int:
    from editor_clients.headless import jsonl

    # Who asks decides what to make of a suggestion that the model is not sure of.
    return _with_server(lambda: jsonl.run({"model": arguments.model, "min_confidence": 0}))


def _complete(arguments: argparse.Namespace) -> int:
    place = re.fullmatch(r"(.+):[1-9]\d*:[1-9]\d*", arguments.place)
    if place is None:
        raise Mistake(f"{arguments.place} is no place: write FILE:LINE:COLUMN, both counted from 1")
    _check_file(Path(place[1]))
    from efim_ls.commands.complete import run

    return run(arguments.place, arguments.json, arguments.model)


def _doctor(arguments: argparse.Namespace) -> int:
    from efim_ls.commands.doctor import run

    return run(arguments.model)


def _cache(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import cache
    from efim_ls.paths import cache_folder

    if arguments.file is not None and arguments.what != "clear":
        raise Mistake("--file goes with clear")
    folder = cache_folder(arguments.folder)
    with _working_in(folder):
        if arguments.what == "clear":
            return cache.clear(folder, arguments.file)
        return cache.show(folder) if arguments.what == "ls" else cache.check(folder)


def _stats(arguments: argparse.Namespace) -> int:
    import sqlite3

    from efim_ls.commands import stats
    from efim_ls.paths import cache_folder

    folder = cache_folder(arguments.folder)
    try:
        with _working_in(folder):
            return stats.clear(folder) if arguments.clear else stats.show(folder, arguments.json)
    except sqlite3.Error as error:
        raise Failure(f"the statistics in {folder} cannot be read ({error}): remove them with --clear") from error


def _models(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import models
    from efim_ls.paths import cache_folder

    return models.show(cache_folder(""), arguments.json)


@contextmanager
def _working_in(folder: Path) -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"{folder} cannot be worked on ({error.strerror}): check who may write there") from error


def _demo(_: argparse.Namespace) -> int:
    from editor_clients.headless.demo import play

    return _with_server(play.run)


def _train(argv: Sequence[str]) -> int:
    from efim_lab.training.command import main as train

    return train(list(argv))


def _replay(arguments: argparse.Namespace) -> int:
    from efim_lab.replay import report

    rows = _rows(arguments, _read(arguments))
    if not rows:
        raise Mistake("no keystroke is left to replay: lower --skip or raise --limit")
    figures = report.summary(arguments.policy, rows)
    if arguments.json:
        print(json.dumps(figures))
    else:
        report.show(figures)
    return 0


def _read(arguments: argparse.Namespace) -> Trace:
    from efim_lab.replay import trace

    _check_file(arguments.trace)
    try:
        return trace.part(trace.read(arguments.trace), arguments.skip, arguments.limit)
    except trace.BadTrace as error:
        raise Mistake(f"{arguments.trace} cannot be replayed: {error}") from error


def _rows(arguments: argparse.Namespace, recorded: Trace) -> list[Row]:
    from model_runtime.errors import ModelError

    how = _counted if arguments.count_only else _played if arguments.policy == "efim" else _baseline
    try:
        return how(arguments, recorded)
    except ModelError as error:
        raise Failure(str(error)) from error


def _counted(arguments: argparse.Namespace, recorded: Trace) -> list[Row]:
    from efim_lab.replay.policies import count
    from efim_lab.replay.report import Row
    from efim_lab.replay.trace import keystrokes
    from efim_ls.completion.window import Budget
    from model_runtime.checkpoint.hub.names import model_folder

    budget, folder = Budget(arguments.head, arguments.tail), model_folder(arguments.model)
    counts = count(keystrokes(recorded), arguments.policy, budget, folder)
    return [Row(c.prompt_tokens, c.recomputed, c.ahead, c.wasted, c.reanchored) for c in counts]


def _played(arguments: argparse.Namespace, recorded: Trace) -> list[Row]:
    from efim_lab.replay import play as replay

    settings = {"model": arguments.model, "head_tokens": arguments.head, "tail_tokens": arguments.tail}
    return _with_server(lambda: replay.run(recorded, arguments.trace.name, settings))


def _baseline(arguments: argparse.Namespace, recorded: Trace) -> list[Row]:
    from dataclasses import asdict

    from efim_lab.replay import baseline
    from efim_lab.replay.report import row_of
    from efim_lab.replay.trace import keystrokes
    from efim_ls.settings import Settings

    settings = Settings(model=arguments.model, head_tokens=arguments.head, tail_tokens=arguments.tail)
    return [row_of(asdict(costs)) for costs in baseline.costs(keystrokes(recorded), arguments.policy, settings)]


def _with_server(command: Callable[[], T]) -> T:
    from editor_clients.headless.connection import ServerError

    try:
        return command()
    except ServerError as error:
        raise Failure(str(error)) from error


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise Mistake(f"{path} is no file: check the path")
