"""`python -m efim_lab eval`: parses its arguments and measures how well models complete held-out code."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate.commands.checks import DATA, check_data, check_models, extra_required, whole_number, work_errors
from efim_lab.gate.held_out_packages import SPLITS
from efim_ls.commands.arguments import Parser, add_command
from efim_ls.failures import Mistake
from efim_ls.settings import ALTERNATIVES

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers


def add_eval(commands: Subparsers) -> Parser:
    """Add `eval`; return its parser, to which a study may add."""
    summary = "measure how well models complete held-out code"
    details = (
        "Lines are also typed key by key in their whole files; each folder of the data is a repository, known or "
    )
    details += "not. The last line is one JSON object."
    lines = (
        "python -m efim_lab eval --data src --lines 200",
        "python -m efim_lab eval --data src --model run/export --model base",
        "python -m efim_lab eval --data packages --split tuning --only-typing",
        "python -m efim_lab eval --data packages --by-key --lines 200",
        "python -m efim_lab eval --texts tests/golden/tasks/texts.toml",
    )
    evaluate = add_command(commands, "eval", summary, *lines, details=details)
    evaluate.add_argument("--data", type=Path, action="append", default=[], metavar="PATH", help=DATA)
    split = "measure the packages of the data that settings are fitted to, or those that only measure (default: all)"
    evaluate.add_argument("--split", choices=tuple(SPLITS), help=split)
    texts = "type the texts in this TOML file from the first key to the last, alone and in its project"
    evaluate.add_argument("--texts", type=Path, metavar="FILE", help=texts)
    only = "only type lines: nothing is asked for at random places"
    evaluate.add_argument("--only-typing", action="store_true", help=only)
    by_key = "only ask for several suggestions by a key, inside lines and where statements begin"
    evaluate.add_argument("--by-key", action="store_true", help=by_key)
    model = "a model to measure; repeat it to compare several (default: the embedded model)"
    evaluate.add_argument("--model", metavar="MODEL", action="append", default=[], help=model)
    number = partial(whole_number, 1)
    lines = "how many lines to complete (default: 1000); of each kind with --by-key (default: 200)"
    evaluate.add_argument("--lines", type=number, metavar="N", help=lines)
    typed = "how many of these lines to type key by key (default: 150)"
    evaluate.add_argument("--typed", type=number, metavar="N", help=typed)
    opened = "other files open while typing, the nearest of the package; repeat it (default: both 0 and 4)"
    evaluate.add_argument("--open", type=partial(whole_number, 0), action="append", metavar="N", help=opened)
    rows = "write the suggestion before each typed key to this file, as JSON Lines"
    evaluate.add_argument("--rows", type=Path, metavar="FILE", help=rows)
    folder = "the folder of HumanEval-Infilling's files, to run its programs as well"
    evaluate.add_argument("--humaneval", type=Path, metavar="DIR", help=folder)
    language = "measure in this language alone; by phrases, too, if the model does not know it: go, rust, ..."
    evaluate.add_argument("--language", metavar="LANGUAGE", help=language)
    evaluate.set_defaults(run=_eval)
    return evaluate


def _eval(arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub_names import model_folder

    names, paths = arguments.model or [""], arguments.data
    if len(paths) != 1 and not arguments.texts:
        raise Mistake("eval measures one set of code: name it with --data")
    for path in paths:
        check_data(path)
    check_models(names)
    with extra_required("gate"):
        from efim_lab.gate.evaluation import command
    with work_errors():
        folders, rows = [model_folder(name) for name in names], arguments.rows
        if arguments.texts:
            command.evaluate_texts(arguments.texts, folders, rows)
            return 0
        packages = SPLITS[arguments.split] if arguments.split else None
        source, lines = command.HeldOutCode(paths[0], packages), arguments.lines or 500
        opened = tuple(arguments.open or (0, 4))
        options = command.TypingOptions(arguments.typed or 150, opened, arguments.only_typing)
        if arguments.by_key:
            command.evaluate_by_key(source, folders, arguments.lines or 200, ALTERNATIVES)
        elif arguments.language:
            command.evaluate_language(source, folders, lines, arguments.language, options, rows)
        elif arguments.only_typing:
            command.evaluate_typing(source, folders, options, rows)
        else:
            command.evaluate(source, folders, lines, arguments.humaneval, options, rows)
    return 0
