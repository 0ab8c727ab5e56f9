"""`python -m efim_lab eval --repository`: adds its argument, and measures repositories where it is given."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from efim_lab.gate.commands.checks import check_data, check_models, extra_required, work_errors
from efim_ls.commands.arguments import Parser

LINES, TYPED = 50, 5  # of each kind


def add_repository(evaluate: Parser) -> None:
    """Add `--repository` to `eval`, which runs as before without it."""
    repository = (
        "measure where code uses its own project, with and without what its other files say: in the repository's "
        "folder that --data names, in several, or by default in installed packages; --lines and --typed are of each "
        f"kind (default: {LINES} and {TYPED})"
    )
    evaluate.add_argument("--repository", action="store_true", help=repository)
    evaluate.set_defaults(run=partial(_eval, evaluate.get_default("run")))


def _eval(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    from model_runtime.checkpoint.hub_names import model_folder

    if not arguments.repository:
        return run(arguments)
    names = arguments.model or [""]
    for path in arguments.data:
        check_data(path)
    check_models(names)
    with extra_required("train"):
        from efim_lab.gate.evaluation.command import progress_bars
        from efim_lab.studies.repository.command import measure_repositories
    with work_errors(), progress_bars() as progress:
        folders, lines, typed = [*map(model_folder, names)], arguments.lines or LINES, arguments.typed or TYPED
        measured = measure_repositories(arguments.data, folders, lines, typed, progress)
    print(measured)
    return 0
