"""The command line: reads arguments and starts one command.

What a command needs is imported when it runs: `--help` stays quick, and the server can guard its stdout before
any library that might write to it is imported.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from efim_ls.commands.arguments import (
    CACHE_FOLDER,
    MODEL,
    Parser,
    access_errors,
    add_command,
    check_file,
    check_model,
    epilog,
    port,
    run_command,
)
from efim_ls.commands.calibration.arguments import add_calibrate
from efim_ls.failures import Failure, FilePlace, Mistake
from efim_ls.version import installed_version

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers
USAGE = """efim-ls serve is a language server: an editor starts it and talks to it over stdin and stdout.
On a terminal, try `efim-ls demo` or `efim-ls complete FILE:LINE:COLUMN`."""
SHELLS = ("bash", "zsh", "fish")
LOCALHOST = "127.0.0.1"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0 on success, 2 on a user's mistake, 1 on any other failure."""
    return run_command("efim-ls", build_parser().parse_args(argv))


def build_parser() -> Parser:
    """Return the parser of all commands."""
    about = "Completes code as you type, with small models on your own machine."
    examples = epilog("efim-ls complete src/app.py:12:5", "efim-ls doctor")
    parser = Parser("efim-ls", description=about, epilog=examples)
    version = f"efim-ls {installed_version('efim-ls') or '(not installed)'}"
    parser.add_argument("-V", "--version", action="version", version=version)
    parser.set_defaults(run=_serve, tcp=None, http=None, host=None, model=None, first_message=None)
    commands = parser.add_subparsers(metavar="COMMAND")
    completing = _add_serving(commands)
    _add_cache(commands)
    _add_index(commands)
    _add_daemon(commands)
    _add_stats(commands)
    _add_models(commands)
    summary = "watch a short editing session in the terminal"
    details = "A script types into a real server with the embedded model; nothing is kept on disk."
    add_command(commands, "demo", summary, "efim-ls demo", details=details).set_defaults(run=_demo)
    _add_completion(commands)
    for command in (*completing, _add_context(commands), add_calibrate(commands)):
        command.add_argument("--model", metavar="MODEL", default="", help=MODEL)
    return parser


def _add_serving(commands: Subparsers) -> tuple[Parser, ...]:
    """Add the commands that complete code; return those that can be given a model."""
    summary = "run the language server on stdin and stdout (the default command)"
    details = "Editors start it; their settings name the model."
    lines = ("efim-ls serve --tcp 4389", "efim-ls serve --http 8012")
    serve = add_command(commands, "serve", summary, *lines, details=details)
    listening = serve.add_mutually_exclusive_group()
    listening.add_argument(
        "--tcp", type=port, metavar="PORT", help="listen on 127.0.0.1:PORT instead, for one client"
    )
    over_http = "serve clients of llama.cpp, Tabby and OpenAI's completions over HTTP instead, with a separate model"
    listening.add_argument("--http", type=port, metavar="PORT", help=over_http)
    address = f"with --http: the address to listen on (default: {LOCALHOST}, which only this machine reaches)"
    serve.add_argument("--host", metavar="HOST", help=address)
    serve.add_argument("--model", metavar="MODEL", help=f"with --http: {MODEL}")
    serve.add_argument("--first-message", type=int, help=argparse.SUPPRESS)  # from a relay that cannot share
    summary = "serve completions over JSON Lines on stdin and stdout"
    details = (
        "For scripts, and for editors without LSP: each line is a request with an op, such as open, edit, complete "
        "or accept, and gets one line as its answer."
    )
    headless = add_command(commands, "headless", summary, "efim-ls headless < requests.jsonl", details=details)
    headless.set_defaults(run=_headless)
    summary = "print one completion at a place in a file"
    details = "Prints the text to insert to stdout, and to stderr why there is none, or which part editors hide."
    lines = ("efim-ls complete src/app.py:12:5", "efim-ls complete src/app.py:12:5 --json")
    complete = _add_at_place(commands, "complete", summary, *lines, details=details)
    complete.add_argument("--json", action="store_true", help="print one JSON object with text, costs and reason")
    complete.set_defaults(run=_complete)
    summary = "check the installation, and measure how fast suggestions come"
    details = "The first line is the verdict. The exit status is 1 if something is wrong."
    lines = ("efim-ls doctor", "efim-ls doctor --model Qwen/Qwen2.5-Coder-1.5B", "efim-ls doctor --measure")
    doctor = add_command(commands, "doctor", summary, *lines, details=details)
    measured = "time passes of the model with each number format, and mark the one in use; takes seconds longer"
    doctor.add_argument("--measure", action="store_true", help=measured)
    engine = "also try the server at this address; a JSON object as in the setting `engine` is understood, too"
    doctor.add_argument("--engine", metavar="URL", default="", help=engine)
    doctor.add_argument("--verbose", action="store_true", help="also say how the model is computed, and why so")
    doctor.set_defaults(run=_doctor)
    return headless, complete, doctor


def _add_context(commands: Subparsers) -> Parser:
    summary = "explain the suggestion at a place in a file"
    details = "Shows where each suggested word comes from, and each part of the prompt with its cost."
    lines = ("efim-ls context src/app.py:12:5", "efim-ls context src/app.py:12:5 --json")
    context = _add_at_place(commands, "context", summary, *lines, details=details)
    context.add_argument("--json", action="store_true", help="print the JSON object that efim/explain answers")
    context.add_argument("--excerpts", action="store_true", help="let the model read text of other files")
    context.set_defaults(run=_context)
    return context


def _add_at_place(commands: Subparsers, name: str, summary: str, *examples: str, details: str) -> Parser:
    """Add a command that is given a cursor in a file."""
    command = add_command(commands, name, summary, *examples, details=details)
    command.add_argument("place", metavar="FILE:LINE:COLUMN", help="the cursor; line and column count from 1")
    return command


def _add_cache(commands: Subparsers) -> None:
    summary = "list, verify or clear the cache on disk"
    details = "The cache holds keys and values of your files, so that suggestions come soon after a restart."
    lines = ("efim-ls cache ls", "efim-ls cache clear --file src/app.py")
    cache = add_command(commands, "cache", summary, *lines, details=details)
    what = "list the cache, check it for damage, or remove it"
    cache.add_argument("action", metavar="ls|verify|clear", choices=("ls", "verify", "clear"), help=what)
    cache.add_argument("--file", type=Path, metavar="FILE", help="with clear: remove only this file's data")
    shared = "with ls or clear: use a team's cache, given as the JSON object of its setting"
    cache.add_argument("--shared", metavar="SETTING", help=shared)
    cache.add_argument("--yes", action="store_true", help="with clear --shared: do not ask")
    cache.add_argument("--folder", metavar="DIR", default="", help=CACHE_FOLDER)
    cache.set_defaults(run=_cache)


def _add_index(commands: Subparsers) -> None:
    summary = "build the index of a folder, or show or remove it"
    details = (
        "A server does this by itself when it has nothing else to do. Files are chosen by the settings of the editor "
        "that used the folder last, or by the defaults."
    )
    index = add_command(commands, "index", summary, "efim-ls index", "efim-ls index src --status", details=details)
    index.add_argument("place", type=Path, nargs="?", metavar="FOLDER", help="a workspace folder (default: this one)")
    deeds = index.add_mutually_exclusive_group()
    deeds.add_argument("--status", action="store_true", help="show the index")
    deeds.add_argument("--rebuild", action="store_true", help="build it from nothing")
    deeds.add_argument("--clear", action="store_true", help="remove it")
    index.add_argument("--folder", metavar="DIR", default="", help=CACHE_FOLDER)
    index.set_defaults(run=_index)


def _add_daemon(commands: Subparsers) -> None:
    summary = "show the server processes that your editors share"
    status = add_command(commands, "status", summary, "efim-ls status", "efim-ls status --json")
    status.add_argument("--json", action="store_true", help="print one JSON object for each process")
    status.set_defaults(run=_status)
    summary = "end the server processes that your editors share"
    details = "Ends processes of this installation and cache folder. Open editors start a new process once you type."
    stop = add_command(commands, "stop", summary, "efim-ls stop", "efim-ls stop --all", details=details)
    stop.add_argument(
        "--all", action="store_true", help="also end the processes of your other installations and cache folders"
    )
    stop.set_defaults(run=_stop)


def _add_stats(commands: Subparsers) -> None:
    summary = "count suggestions shown and accepted, by period and language"
    details = "The counts are kept on this machine only, without any text."
    stats = add_command(commands, "stats", summary, "efim-ls stats", "efim-ls stats --json", details=details)
    stats.add_argument("--json", action="store_true", help="print one JSON object")
    stats.add_argument("--clear", action="store_true", help="delete the statistics")
    stats.add_argument("--folder", metavar="DIR", default="", help=CACHE_FOLDER)
    stats.set_defaults(run=_stats)


def _add_models(commands: Subparsers) -> None:
    summary = "recommend a model for this machine, and list others with their speed"
    details = "Nothing is downloaded. The setting model takes any of these names and files."
    models = add_command(commands, "models", summary, "efim-ls models", "efim-ls models --json", details=details)
    models.add_argument("--json", action="store_true", help="print one JSON object")
    current = "the model in use, which the list marks (default: the embedded model)"
    models.add_argument("--model", metavar="MODEL", default="", help=current)
    models.set_defaults(run=_models)


def _add_completion(commands: Subparsers) -> None:
    summary = "print a script that completes this command line in a shell"
    details = (
        "The first example belongs in ~/.bashrc, the second in ~/.zshrc after compinit; the third writes a file that "
        "fish finds by itself."
    )
    lines = (
        'eval "$(efim-ls completion bash)"',
        'eval "$(efim-ls completion zsh)"',
        "efim-ls completion fish > ~/.config/fish/completions/efim-ls.fish",
    )
    completion = add_command(commands, "completion", summary, *lines, details=details)
    completion.add_argument("shell", metavar="|".join(SHELLS), choices=SHELLS, help="the shell that reads the script")
    completion.set_defaults(run=_completion)


def _serve(arguments: argparse.Namespace) -> int:
    if arguments.http is not None:
        return _serve_http(arguments.host or LOCALHOST, arguments.http, arguments.model or "")
    if arguments.host is not None or arguments.model is not None:
        raise Mistake("--host and --model are for --http: add it, or leave them out")
    if arguments.tcp is None and arguments.first_message is None:
        if sys.stdin.isatty():
            print(USAGE, file=sys.stderr)
            return 2
        if os.name == "posix":
            from efim_ls.daemon.relay import exec_relay

            exec_relay()
    from efim_ls.lsp.server import serve

    if arguments.first_message is None:
        return serve(arguments.tcp)
    with open(arguments.first_message, "rb") as first:
        return serve(first=first)


def _serve_http(host: str, port: int, model: str) -> int:
    check_model(model)
    try:
        from efim_ls.http.server import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("starlette", "uvicorn", "h11"):
            raise
        raise Failure("serving HTTP needs starlette and uvicorn: install efim-ls with its extra `http`") from None
    return serve(host, port, model)


def _headless(arguments: argparse.Namespace) -> int:
    from editor_clients.headless import jsonl

    check_model(arguments.model)
    model = os.path.abspath(arguments.model) if os.path.exists(arguments.model) else arguments.model
    # The client decides what to do with a suggestion of low confidence.
    return _with_server(lambda: jsonl.serve({"model": model, "suggestions": 0}))


def _complete(arguments: argparse.Namespace) -> int:
    place = _place(arguments.place)
    from efim_ls.commands import complete

    return complete.show(place, arguments.json, arguments.model)


def _context(arguments: argparse.Namespace) -> int:
    place = _place(arguments.place)
    from efim_ls.commands import context

    return context.show(place, arguments.json, arguments.model, arguments.excerpts)


def _place(text: str) -> FilePlace:
    place = re.fullmatch(r"(.+):([1-9]\d*):([1-9]\d*)", text)
    if place is None:
        raise Mistake(f"{text} is not a position: write FILE:LINE:COLUMN, both counted from 1")
    path, line, column = place.groups()
    check_file(Path(path))
    return FilePlace(Path(path), int(line), int(column))


def _doctor(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import doctor

    return doctor.show(arguments.model, arguments.measure, arguments.engine, arguments.verbose)


def _cache(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import cache
    from efim_ls.paths import cache_folder

    if arguments.file is not None and arguments.action != "clear":
        raise Mistake("--file works with clear only: leave it out")
    if arguments.shared is not None:
        if arguments.action == "verify" or arguments.file is not None:
            raise Mistake("--shared works with ls and clear only, and without --file: leave it out")
        from efim_ls.commands import team_cache

        is_list = arguments.action == "ls"
        return team_cache.show(arguments.shared) if is_list else team_cache.clear(arguments.shared, arguments.yes)
    folder = cache_folder(arguments.folder)
    with access_errors(folder):
        if arguments.action == "clear":
            return cache.clear(folder, arguments.file)
        return cache.show(folder) if arguments.action == "ls" else cache.check(folder)


def _index(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import index
    from efim_ls.paths import cache_folder

    place, cache = arguments.place or Path(), cache_folder(arguments.folder)
    if not (place.is_dir() or arguments.clear):
        raise Mistake(f"{place} is not a folder: check the path")
    with access_errors(cache):
        if arguments.status:
            return index.show(place, cache)
        return index.clear(place, cache) if arguments.clear else index.build(place, cache, arguments.rebuild)


def _status(arguments: argparse.Namespace) -> int:
    return _servers().show(arguments.json)


def _stop(arguments: argparse.Namespace) -> int:
    return _servers().stop(arguments.all)


def _servers() -> ModuleType:
    if os.name != "posix":
        raise Failure("on this system each editor has its own server: there is none to share")
    from efim_ls.commands import servers

    return servers


def _stats(arguments: argparse.Namespace) -> int:
    import sqlite3

    from efim_ls.commands import stats
    from efim_ls.paths import cache_folder

    folder = cache_folder(arguments.folder)
    try:
        with access_errors(folder):
            return stats.clear(folder) if arguments.clear else stats.show(folder, arguments.json)
    except sqlite3.Error as error:
        raise Failure(
            f"the usage statistics in {folder} cannot be read ({error}): delete them with --clear"
        ) from error


def _models(arguments: argparse.Namespace) -> int:
    from efim_ls.commands.models import table

    return table.show(arguments.json, arguments.model)


def _completion(arguments: argparse.Namespace) -> int:
    from efim_ls.commands import completion

    parser = build_parser()
    return completion.show(parser, arguments.shell)


def _demo(_: argparse.Namespace) -> int:
    from editor_clients.headless.demo.play import play_session

    return _with_server(play_session)


def _with_server(command: Callable[[], int]) -> int:
    """Run a command that starts a server; turn what the server reports into a Failure."""
    from editor_clients.headless.connection import ServerError

    try:
        return command()
    except ServerError as error:
        raise Failure(str(error)) from error
