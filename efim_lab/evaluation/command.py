"""`eval`: measures models, prints tables, and one JSON object as the last line."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from efim_lab.documents import CodeDocument
from efim_lab.evaluation import held_out_data, inside_line, unknown_language
from efim_lab.evaluation.figures import markdown
from efim_lab.evaluation.held_out import Progress, measure, model_name
from efim_lab.evaluation.humaneval import tasks as humaneval
from efim_lab.evaluation.report import HeldOutReport, as_json, percent, table
from efim_lab.evaluation.repository.command import measure_repositories
from efim_lab.evaluation.typist import measurement as typist
from efim_lab.evaluation.typist import report as typing_report
from efim_lab.evaluation.typist.keys import write_rows
from efim_lab.evaluation.typist.measurement import TypingOptions, TypingReport


def evaluate(
    source: Path,
    folders: Sequence[Path],
    lines: int,
    tasks_folder: Path | None,
    options: TypingOptions,
    rows: Path | None,
) -> None:
    """Measure every model at the same places: typed lines, random cursors in lines, and spans inside lines.

    `lines` limits the held-out lines of each kind. HumanEval-Infilling is measured if its folder is given. Every key
    typed is written to `rows`.
    """
    documents = held_out_data.read_held_out(source)
    tasks = humaneval.read(tasks_folder) if tasks_folder else {}
    with _bars() as progress:
        typing = _typed(folders, documents, lines, options, rows, progress)
        reports = [measure(folder, documents, lines, progress) for folder in folders]
        inside = {model_name(folder): inside_line.measure(folder, documents, lines, progress) for folder in folders}
        passed = {model_name(folder): humaneval.measure(folder, tasks, progress) for folder in folders if tasks}
    print(typing_report.table(typing) + "\n")
    print(table(*reports))
    print("\n" + inside_line.table(inside))
    if passed:
        print("\n" + _table(passed, {kind: len(some) for kind, some in tasks.items()}))
    print()
    print(_json(source, reports, typing, inside, passed))


def evaluate_language(
    source: Path, folders: Sequence[Path], lines: int, language: str, options: TypingOptions, rows: Path | None
) -> None:
    """Measure suggestions in a language that the models do not know, at the same places for each."""
    documents = held_out_data.read_held_out(source, language)
    with _bars() as progress:
        typing = _typed(folders, documents, lines, options, rows, progress)
        measured = [unknown_language.measure(folder, documents, language, lines, progress) for folder in folders]
    print(typing_report.table(typing) + "\n")
    for folder, each in zip(folders, measured, strict=True):
        print(f"{model_name(folder)}: {unknown_language.table(language, lines, each)}\n")
    for each, typed in zip(measured, typing, strict=True):
        print(unknown_language.as_json(source, language, each, typed))


def evaluate_repositories(paths: Sequence[Path], folders: Sequence[Path], count: int, typed: int) -> None:
    """Measure every model where repositories use their own names.

    Without paths, they are the installed ones that are held out. `count` limits the places of each kind, and the
    first `typed` of each are typed.
    """
    with _bars() as progress:
        measured = measure_repositories(paths, folders, count, typed, progress)
    print(measured)


def _typed(
    folders: Sequence[Path],
    documents: Sequence[CodeDocument],
    lines: int,
    options: TypingOptions,
    rows: Path | None,
    progress: Progress,
) -> list[TypingReport]:
    """Type with every model, and write every key to `rows`."""
    if rows:
        write_rows(rows, {})  # fails now if it cannot be written
    found = [typist.measure(folder, documents, lines, options, progress) for folder in folders]
    if rows:
        write_rows(rows, {report.model: keys for report, keys in found})
    return [report for report, _ in found]


def _table(passed: Mapping[str, humaneval.PassRates], tasks: Mapping[str, int]) -> str:
    rows = [
        [f"{arm.name}, {model}" if len(passed) > 1 else arm.name, *(percent(kinds[kind][arm.name]) for kind in tasks)]
        for arm in humaneval.TASK_ARMS
        for model, kinds in passed.items()
    ]
    header = ["prompt", *(f"{kind} %, {count:,} tasks" for kind, count in tasks.items())]
    return f"HumanEval-Infilling, pass@1, greedy\n\n{markdown.table([header, *rows])}"


def _json(
    source: Path,
    reports: Sequence[HeldOutReport],
    typing: Sequence[TypingReport],
    inside: Mapping[str, inside_line.InsideLineReport],
    passed: Mapping[str, humaneval.PassRates],
) -> str:
    """Return one line of JSON; `humaneval` is null for models not measured on it."""
    models = [
        as_json(report)
        | {"typing": asdict(typed), "inside_line": asdict(inside[report.model])}
        | {"humaneval": _plain(passed.get(report.model))}
        for report, typed in zip(reports, typing, strict=True)
    ]
    return json.dumps({"data": str(source), "models": models})


def _plain(passed: humaneval.PassRates | None) -> dict[str, dict[str, dict[str, float]]] | None:
    if passed is None:
        return None
    return {kind: {arm: vars(estimate) for arm, estimate in arms.items()} for kind, arms in passed.items()}


@contextmanager
def _bars() -> Generator[Progress]:
    """Show a progress bar for each measurement, on terminals only."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = Bars(*columns, console=Console(file=sys.stdout), disable=not sys.stdout.isatty(), transient=True)
    known: dict[str, TaskID] = {}

    def show(what: str, done: int, whole: int) -> None:
        if what not in known:
            known[what] = bars.add_task(what, total=whole)
        bars.update(known[what], completed=done)

    with bars:
        yield show
