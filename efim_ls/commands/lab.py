"""The laboratory's commands: `replay`, `eval`, `bench` and `train`.

Nothing else in this package imports `efim_lab`, and this module only when one of them runs.
"""

from __future__ import annotations

import argparse
import json
import sysconfig
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_ls.commands.arguments import Failure, Mistake, Parser, add_command, check_file, check_model, whole_number

if TYPE_CHECKING:
    from efim_lab.replay.report import KeystrokeRow
    from efim_lab.replay.trace import Trace
    from efim_ls.commands.arguments import Subparsers

DATA = "a heldout.jsonl written by `train corpus`, or a folder of .py files"
POLICIES = ("none", "psm", "spm", "efim-paper", "efim")
REPLAY_NUMBERS = (
    ("--skip", 0, 0, "apply the first N transactions without asking for completions (default: 0)"),
    ("--limit", 0, None, "stop after N requests (default: never)"),
    ("--head", 1, 1536, "at most N tokens before the anchor (default: 1536)"),
    ("--tail", 1, 384, "at most N tokens after the cursor's line (default: 384)"),
)  # name, least, default, help
PAPER_NUMBERS = (
    ("--users", 16, "users who ask at the same time"),
    ("--rounds", 5, "requests of each user, one after the other"),
    ("--tokens", 128, "new tokens in each answer"),
)  # name, default (the paper's), help


def add_replay(commands: Subparsers) -> Parser:
    """Add `replay`."""
    summary = "replay a recorded editing session and report what keystrokes cost"
    details = "Every key of the recording is typed into a real server, or only counted."
    lines = (
        "efim-ls replay session.json.gz --limit 1000",
        "efim-ls replay session.json.gz --policy psm --json",
    )
    replay = add_command(commands, "replay", summary, *lines, details=details)
    replay.add_argument("trace", metavar="TRACE", type=Path, help="a recorded session: JSON, plain or gzipped")
    policy = "no reuse, FIM in PSM or SPM order, EFIM as published, or this server's EFIM (default: efim)"
    replay.add_argument("--policy", choices=POLICIES, default="efim", help=policy)
    excerpts = (
        "with --count-only: show excerpts of other files as every part of this server's context and as other tools "
        "lay the same texts out, cut from the files of a folder or, without one, from the recording's last text"
    )
    replay.add_argument("--excerpts", nargs="?", const="", metavar="FOLDER", help=excerpts)
    for name, least, default, text in REPLAY_NUMBERS:
        replay.add_argument(name, type=partial(whole_number, least), default=default, metavar="N", help=text)
    replay.add_argument("--count-only", action="store_true", help="count tokens without running a model")
    replay.add_argument("--json", action="store_true", help="print one JSON object")
    replay.set_defaults(run=_replay)
    return replay


def add_eval(commands: Subparsers) -> None:
    """Add `eval`."""
    summary = "measure how well models complete held-out code"
    details = (
        "Lines are also typed key by key in their whole files; each folder of the data is a repository, known or "
    )
    details += "not. The last line is one JSON object."
    lines = (
        "efim-ls eval --data src --lines 200",
        "efim-ls eval --data src --model run/export --model base",
        "efim-ls eval --repository",
    )
    evaluate = add_command(commands, "eval", summary, *lines, details=details)
    data = f"{DATA}; with --repository, a repository's folder, and it can be repeated (default: installed packages)"
    evaluate.add_argument("--data", type=Path, action="append", default=[], metavar="PATH", help=data)
    repository = "measure where code uses its own project, with and without what its other files say"
    evaluate.add_argument("--repository", action="store_true", help=repository)
    model = "a model to measure; repeat it to compare several (default: the embedded model)"
    evaluate.add_argument("--model", metavar="MODEL", action="append", default=[], help=model)
    number = partial(whole_number, 1)
    lines = "how many lines to complete (default: 1000); with --repository, of each kind (default: 50)"
    evaluate.add_argument("--lines", type=number, metavar="N", help=lines)
    typed = "how many of these lines to type key by key (default: 150); with --repository, of each kind (default: 5)"
    evaluate.add_argument("--typed", type=number, metavar="N", help=typed)
    opened = "other files open while typing, the nearest of the package; repeat it (default: both 0 and 4)"
    evaluate.add_argument("--open", type=partial(whole_number, 0), action="append", metavar="N", help=opened)
    rows = "write what is suggested before each key typed to this file, as JSON Lines"
    evaluate.add_argument("--rows", type=Path, metavar="FILE", help=rows)
    folder = "the folder of HumanEval-Infilling's files, to run its programs as well"
    evaluate.add_argument("--humaneval", type=Path, metavar="DIR", help=folder)
    language = "measure suggestions in this language, which the model does not know: typescript, go, rust, ..."
    evaluate.add_argument("--language", metavar="LANGUAGE", help=language)
    evaluate.set_defaults(run=_eval)


def add_bench(commands: Subparsers) -> None:
    """Add `bench` and its experiments."""
    bench = add_command(commands, "bench", "run an experiment on this machine", "efim-ls bench efim-paper")
    experiments = bench.add_subparsers(metavar="EXPERIMENT", required=True)
    summary = "repeat the experiment of EFIM's paper (arXiv 2505.21889): no KV reuse, FIM, EFIM"
    paper = add_command(experiments, "efim-paper", summary, "efim-ls bench efim-paper --users 4 --rounds 3")
    # Every Python has asyncio, and the embedded model was not trained on it.
    asyncio = Path(sysconfig.get_path("stdlib"), "asyncio")
    where = f"{DATA} (default: Python's own asyncio)"
    paper.add_argument("--data", type=Path, default=asyncio, metavar="PATH", help=where)
    paper.add_argument("--model", metavar="MODEL", default="", help="the model (default: the embedded model)")
    for name, default, text in PAPER_NUMBERS:
        number = partial(whole_number, 1)
        paper.add_argument(name, type=number, default=default, metavar="N", help=f"{text} (default: {default})")
    paper.add_argument("--json", action="store_true", help="also print one JSON object as the last line")
    paper.set_defaults(run=_efim_paper)
    _add_reuse(experiments, asyncio)


def _add_reuse(experiments: Subparsers, asyncio: Path) -> None:
    summary = "measure keys and values that are composed of what moved, and context under a budget"
    details = "Every method is compared with full attention. The last line is one JSON object."
    lines = ("efim-ls bench reuse --places 16", "efim-ls bench reuse --data repositories --plot reuse.png")
    reuse = add_command(experiments, "reuse", summary, *lines, details=details)
    where = (
        "a folder of Python packages, or a heldout.jsonl written by `train corpus` (default: Python's own asyncio)"
    )
    reuse.add_argument("--data", type=Path, default=asyncio, metavar="PATH", help=where)
    reuse.add_argument("--model", metavar="MODEL", default="", help="the model (default: the embedded model)")
    places, number = "how many cursors to measure at (default: 32)", partial(whole_number, 1)
    reuse.add_argument("--places", type=number, default=32, metavar="N", help=places)
    reuse.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures to this PNG file")
    reuse.set_defaults(run=_reuse)


def train(argv: Sequence[str]) -> int:
    """Run `train`, which parses its own arguments; return the exit status."""
    from efim_lab.training.command import main

    return main(list(argv))


def train_parsers() -> tuple[Parser, Parser]:
    """Return the two parsers of `train`: the one for training from scratch, the one for fine-tuning."""
    from efim_lab.training import command
    from efim_lab.training.finetune import command as finetune_command

    return command.build_parser(), finetune_command.build_parser()


def _replay(arguments: argparse.Namespace) -> int:
    from efim_lab.replay import report

    if arguments.excerpts is not None:
        return _replay_excerpts(arguments, _read_trace(arguments))
    rows = _replayed(arguments, _read_trace(arguments))
    if not rows:
        raise Mistake("the trace has no keystroke left to replay: lower --skip or raise --limit")
    figures = report.summary(arguments.policy, rows)
    if arguments.json:
        print(json.dumps(figures))
    else:
        report.show(figures)
    return 0


def _replay_excerpts(arguments: argparse.Namespace, recorded: Trace) -> int:
    """Count the recording's keystrokes in all layouts of the same excerpts; return the exit status."""
    if not arguments.count_only:
        raise Mistake("excerpts are only counted: add --count-only")
    check_model(arguments.model)
    from efim_lab.replay import report
    from efim_lab.replay.layouts import count_layouts
    from efim_ls.completion.planning.window import Budget
    from model_runtime.checkpoint.hub.names import model_folder

    if arguments.excerpts and not Path(arguments.excerpts).is_dir():
        raise Mistake(f"{arguments.excerpts} is no folder: name one with source files, or none")
    other = Path(arguments.excerpts) if arguments.excerpts else None
    budget, folder = Budget(arguments.head, arguments.tail), model_folder(arguments.model)
    for layout, rows in count_layouts(recorded, budget, folder, other):
        if not rows:
            raise Mistake("the trace has no keystroke left to replay: lower --skip or raise --limit")
        figures = report.summary(layout, rows)
        if arguments.json:
            print(json.dumps(figures))
        else:
            report.show(figures)
    return 0


def _read_trace(arguments: argparse.Namespace) -> Trace:
    from efim_lab.replay import trace

    check_file(arguments.trace)
    try:
        return trace.part(trace.read(arguments.trace), arguments.skip, arguments.limit)
    except trace.TraceError as error:
        raise Mistake(f"{arguments.trace} cannot be replayed: {error}") from error


def _replayed(arguments: argparse.Namespace, recorded: Trace) -> list[KeystrokeRow]:
    """Return a row for every keystroke: counted, from the server or, for other policies, from the engine alone."""
    check_model(arguments.model)
    from editor_clients.headless.connection import ServerError
    from efim_lab.replay.baseline import baseline_rows
    from efim_lab.replay.player import replay
    from efim_lab.replay.policies import count_rows
    from efim_lab.replay.trace import keystrokes
    from efim_ls.completion.planning.window import Budget
    from efim_ls.settings import Settings
    from model_runtime.checkpoint.hub.names import model_folder
    from model_runtime.errors import ModelError

    settings = {"model": arguments.model, "head_tokens": arguments.head, "tail_tokens": arguments.tail}
    try:
        if arguments.count_only:
            budget, folder = Budget(arguments.head, arguments.tail), model_folder(arguments.model)
            return list(count_rows(keystrokes(recorded), arguments.policy, budget, folder))
        if arguments.policy == "efim":
            return replay(recorded, arguments.trace.name, settings)
        return list(baseline_rows(keystrokes(recorded), arguments.policy, Settings(**settings)))
    except (ModelError, ServerError) as error:
        raise Failure(str(error)) from error


def _eval(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub.names import model_folder

    names, paths = arguments.model or [""], arguments.data
    if len(paths) != 1 and not arguments.repository:
        raise Mistake("eval measures one set of code: name it with --data, or add --repository")
    for path in paths:
        _check_data(path)
    _check_models(names)
    with _extra_required():
        from efim_lab.evaluation.command import (
            TypingOptions,
            evaluate,
            evaluate_language,
            evaluate_repositories,
        )

    with _work_errors():
        folders = [model_folder(name) for name in names]
        if arguments.repository:
            evaluate_repositories(paths, folders, arguments.lines or 50, arguments.typed or 5)
            return 0
        lines, rows = arguments.lines or 500, arguments.rows
        options = TypingOptions(arguments.typed or 150, tuple(arguments.open or (0, 4)))
        if arguments.language:
            evaluate_language(paths[0], folders, lines, arguments.language, options, rows)
        else:
            evaluate(paths[0], folders, lines, arguments.humaneval, options, rows)
    return 0


def _efim_paper(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub.names import model_folder

    _check_data(arguments.data)
    _check_models([arguments.model])
    with _extra_required():
        from efim_lab.paper.command import ExperimentSize, run_experiment

    size = ExperimentSize(arguments.users, arguments.rounds, arguments.tokens)
    with _work_errors():
        run_experiment(arguments.data, model_folder(arguments.model), size, arguments.json)
    return 0


def _reuse(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub.names import model_folder

    _check_data(arguments.data)
    _check_models([arguments.model])
    with _extra_required():
        from efim_lab.reuse.command import run_reuse

    with _work_errors():
        run_reuse(arguments.data, model_folder(arguments.model), arguments.places, arguments.plot)
    return 0


def _check_data(path: Path) -> None:
    """Raise Mistake if code cannot be read."""
    from efim_lab.documents import read_documents

    with _work_errors():
        if not path.is_dir():
            read_documents(path)


def _check_models(models: Sequence[str]) -> None:
    """Raise Mistake or Failure if a model cannot be read; imports no torch."""
    from model_runtime.checkpoint.hub.names import model_folder

    with _work_errors():
        for name in models:
            model_folder(name)
            check_model(name)


@contextmanager
def _extra_required() -> Generator[None]:
    """Turn a failed import into a Failure that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Failure(f"{error.name} is not installed: run pip install '.[train]' in a clone of efim-ls") from error


@contextmanager
def _work_errors() -> Generator[None]:
    """Turn what is wrong with the user's data or model into a Mistake or a Failure."""
    from efim_lab.errors import WorkError
    from model_runtime.errors import ModelError

    try:
        yield
    except WorkError as error:
        raise Mistake(str(error)) from error
    except ModelError as error:
        raise Failure(str(error)) from error
