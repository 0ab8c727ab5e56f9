"""The command line: reads arguments and starts one command.

What a command needs is imported when it runs: `--help` stays quick, and the server can guard its stdout before
any library that might write to it is imported.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from efim_ls.commands import lab
from efim_ls.commands.arguments import Failure, Mistake, Parser, add_command, check_file, port
from efim_ls.version import installed_version

MODEL = "a folder, or owner/name on the Hugging Face hub (default: the embedded model)"
CACHE_FOLDER = "the cache folder, as in the setting cache_folder (default: the system's cache folder)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0 on success, 2 on a user's mistake, 1 on any other failure."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["train"]:
        return lab.train(argv[1:])
    arguments = build_parser().parse_args(argv)
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except Failure as failure:
        print(f"efim-ls: {failure}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has gone; otherwise the interpreter's last flush would print an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def build_parser() -> Parser:
    """Return the parser of all commands but `train`, which parses its own arguments."""
    parser = Parser("efim-ls", description="Code completion that keeps a model's KV cache alive for every file.")
    parser.add_argument(
        "--version", action="version", version=f"efim-ls {installed_version('efim-ls') or '(not installed)'}"
    )
    parser.set_defaults(run=_serve, tcp=None)
    commands = parser.add_subparsers(metavar="COMMAND")
    serve = add_command(commands, "serve", "run the language server on stdin and stdout (the default command)")
    serve.add_argument("--tcp", type=port, metavar="PORT", help="listen on 127.0.0.1:PORT instead, for one client")
    headless = add_command(commands, "headless", "serve completions over JSON Lines on stdin and stdout")
    headless.set_defaults(run=_headless)
    complete = add_command(commands, "complete", "print one completion at a place in a file")
    complete.add_argument("place", metavar="FILE:LINE:COLUMN", help="the cursor; line and column count from 1")
    complete.add_argument("--json", action="store_true", help="print one JSON object with text, costs and reason")
    complete.set_defaults(run=_complete)
    doctor = add_command(commands, "doctor", "check the model, the machine and the settings")
    doctor.set_defaults(run=_doctor)
    replay = lab.add_replay(commands)
    _add_cache(add_command(commands, "cache", "list, verify or clear the cache on disk"))
    _add_stats(add_command(commands, "stats", "count suggestions shown and accepted, by period and language"))
    models = add_command(commands, "models", "list known and downloaded models, whether they fit, and their speed")
    models.add_argument("--json", action="store_true", help="print one JSON object")
    models.set_defaults(run=_models)
    add_command(commands, "demo", "watch a short editing session in the terminal").set_defaults(run=_demo)
    lab.add_eval(commands)
    lab.add_bench(commands)
    commands.add_parser("train", help="train a model on your own code, or fine-tune an existing one", add_help=False)
    for command in (headless, complete, doctor, replay):
        command.add_argument("--model", metavar="MODEL", default="", help=MODEL)
    return parser


def _add_cache(cache: argparse.ArgumentParser) -> None:
    what = "list what is cached, check it for damage, or remove it"
    cache.add_argument("what", choices=("ls", "verify", "clear"), help=what)
    cache.add_argument("--file", type=Path, metavar="FILE", help="with clear: remove only this file's data")
    cache.add_argument("--folder", metavar="DIR", default="", help=CACHE_FOLDER)
    cache.set_defaults(run=_cache)


def _add_stats(stats: argparse.ArgumentParser) -> None:
    stats.add_argument("--json", action="store_true", help="print one JSON object")
    stats.add_argument("--clear", action="store_true", help="delete the statistics")
    stats.add_argument("--folder", metavar="DIR", default="", help=CACHE_FOLDER)
    stats.set_defaults(run=_stats)


def _serve(arguments: argparse.Namespace) -> int:
    from efim_ls.lsp.server import serve

    return serve(arguments.tcp)


def _headless(arguments: argparse.Namespace) -> int:
    from editor_clients.headless import jsonl

    # The client decides what to do with a suggestion of low confidence.
    return _with_server(lambda: jsonl.serve({"model": arguments.model, "min_confidence": 0}))


def _complete(arguments: argparse.Namespace) -> int:
    place = re.fullmatch(r"(.+):[1-9]\d*:[1-9]\d*", arguments.place)
    if place is None:
        raise Mistake(f"{arguments.place} is not a position: write FILE:LINE:COLUMN, both counted from 1")
    check_file(Path(place[1]))
    from efim_ls.commands import complete

    return complete.show(arguments.place, arguments.json, arguments.model)


def _doctor(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import doctor

    return doctor.show(arguments.model)


def _cache(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import cache
    from efim_ls.paths import cache_folder

    if arguments.file is not None and arguments.what != "clear":
        raise Mistake("--file works with clear only: leave it out")
    folder = cache_folder(arguments.folder)
    with _access_errors(folder):
        if arguments.what == "clear":
            return cache.clear(folder, arguments.file)
        return cache.show(folder) if arguments.what == "ls" else cache.check(folder)


def _stats(arguments: argparse.Namespace) -> int:
    import sqlite3

    from efim_ls.commands import stats
    from efim_ls.paths import cache_folder

    folder = cache_folder(arguments.folder)
    try:
        with _access_errors(folder):
            return stats.clear(folder) if arguments.clear else stats.show(folder, arguments.json)
    except sqlite3.Error as error:
        raise Failure(
            f"the usage statistics in {folder} cannot be read ({error}): delete them with --clear"
        ) from error


def _models(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import models
    from efim_ls.paths import cache_folder

    return models.show(cache_folder(""), arguments.json)


def _demo(_: argparse.Namespace) -> int:
    from editor_clients.headless.demo.play import play_session

    return _with_server(play_session)


@contextmanager
def _access_errors(folder: Path) -> Generator[None]:
    """Turn an OSError into a Failure that names the folder."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"{folder} cannot be read or changed ({error.strerror}): check its permissions") from error


def _with_server(command: Callable[[], int]) -> int:
    """Run a command that starts a server; turn what the server reports into a Failure."""
    from editor_clients.headless.connection import ServerError

    try:
        return command()
    except ServerError as error:
        raise Failure(str(error)) from error
