"""`eval`: measures models, prints tables, and one JSON object as the last line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation import inside_line, unknown_language
from efim_lab.gate.evaluation.by_key import measurement as by_key
from efim_lab.gate.evaluation.by_key import report as key_report
from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.ghosts import report as ghost_report
from efim_lab.gate.evaluation.ghosts.figures import GhostArm, ghost_arms
from efim_lab.gate.evaluation.ghosts.rows import write_rows
from efim_lab.gate.evaluation.ghosts.texts import read_texts, type_texts
from efim_lab.gate.evaluation.held_out import Progress, measure, model_name
from efim_lab.gate.evaluation.held_out_data import HeldOutCode
from efim_lab.gate.evaluation.humaneval import tasks as humaneval
from efim_lab.gate.evaluation.report import HeldOutReport, as_json, percent, table
from efim_lab.gate.evaluation.typist import measurement as typist
from efim_lab.gate.evaluation.typist import report as typing_report
from efim_lab.gate.evaluation.typist.keys import TypedKey
from efim_lab.gate.evaluation.typist.measurement import HEURISTIC, TypingOptions, TypingReport
from efim_ls.languages.table import knows
from model_runtime.checkpoint.config import read_languages


@dataclass(frozen=True)
class TypedModel:
    """A model's figures of typed lines and of the ghosts that it showed, by arm."""

    typing: TypingReport
    ghosts: Mapping[str, GhostArm]


def evaluate(
    source: HeldOutCode,
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
    documents = source.read()
    tasks = humaneval.read(tasks_folder) if tasks_folder else {}
    with progress_bars() as progress:
        typed = _typed(folders, documents, lines, options, rows, progress)
        reports = [measure(folder, documents, lines, progress) for folder in folders]
        inside = {model_name(folder): inside_line.measure(folder, documents, lines, progress) for folder in folders}
        passed = {model_name(folder): humaneval.measure(folder, tasks, progress) for folder in folders if tasks}
    print(_typing_tables(typed) + "\n")
    print(table(*reports))
    print("\n" + inside_line.table(inside))
    if passed:
        print("\n" + _table(passed, {kind: len(some) for kind, some in tasks.items()}))
    print()
    print(_json(source.path, reports, typed, inside, passed))


def evaluate_typing(source: HeldOutCode, folders: Sequence[Path], options: TypingOptions, rows: Path | None) -> None:
    """Measure every model at the same typed lines and nowhere else."""
    documents = source.read()
    with progress_bars() as progress:
        typed = _typed(folders, documents, options.typed, options, rows, progress)
    _print_typing(source.path, typed)


def evaluate_texts(source: Path, folders: Sequence[Path], rows: Path | None) -> None:
    """Measure every model while whole texts are typed, alone and in a project."""
    texts = read_texts(source)
    with progress_bars() as progress:
        typed = _each_typed(folders, lambda folder: type_texts(folder, texts, progress), rows)
    _print_typing(source, typed)


def evaluate_language(
    source: HeldOutCode,
    folders: Sequence[Path],
    lines: int,
    language: str,
    options: TypingOptions,
    rows: Path | None,
) -> None:
    """Measure suggestions in a language at the same places for each model; by phrases, too, where it is unknown."""
    documents = source.read(language)
    unknown = [folder for folder in folders if not knows(read_languages(folder), language)]
    with progress_bars() as progress:
        typed = _typed(folders, documents, lines, options, rows, progress)
        measured = [unknown_language.measure(folder, documents, language, lines, progress) for folder in unknown]
    _print_typing(source.path, typed)
    for folder, each in zip(unknown, measured, strict=True):
        print(f"\n{model_name(folder)}: {unknown_language.table(language, lines, each)}\n")
        print(unknown_language.as_json(source.path, language, each))


def evaluate_by_key(source: HeldOutCode, folders: Sequence[Path], count: int, wanted: int) -> None:
    """Ask every model for `wanted` suggestions by a key at up to `count` places of each kind."""
    documents = source.read()
    with progress_bars() as progress:
        answers = {model_name(each): by_key.measure(each, documents, count, wanted, progress) for each in folders}
    measured = {model: key_report.key_figures(found, wanted) for model, found in answers.items()}
    print(key_report.table(measured) + "\n")
    models = [
        {"model": model, "by_key": {name: asdict(each) for name, each in figures.items()}}
        for model, figures in measured.items()
    ]
    print(json.dumps({"data": str(source.path), "models": models}))


def _typed(
    folders: Sequence[Path],
    documents: Sequence[CodeDocument],
    lines: int,
    options: TypingOptions,
    rows: Path | None,
    progress: Progress,
) -> list[TypedModel]:
    return _each_typed(folders, lambda folder: typist.measure(folder, documents, lines, options, progress), rows)


def _each_typed(
    folders: Sequence[Path],
    measure_typing: Callable[[Path], tuple[TypingReport, Sequence[Sequence[TypedKey]]]],
    rows: Path | None,
) -> list[TypedModel]:
    """Type with every model, and write every key to `rows`."""
    if rows:
        write_rows(rows, {})  # fails now if it cannot be written
    found = [measure_typing(folder) for folder in folders]
    if rows:
        write_rows(rows, {report.model: keys for report, keys in found})
    return [TypedModel(report, ghost_arms(list(filter(_is_ours, keys)))) for report, keys in found]


def _is_ours(line: Sequence[TypedKey]) -> bool:
    return not line[0].arm.startswith(HEURISTIC)


def _print_typing(source: Path, typed: Sequence[TypedModel]) -> None:
    print(_typing_tables(typed) + "\n")
    models = [{"model": each.typing.model, **_typed_json(each)} for each in typed]
    print(json.dumps({"data": str(source), "models": models}))


def _typing_tables(typed: Sequence[TypedModel]) -> str:
    ghosts = ghost_report.table({each.typing.model: each.ghosts for each in typed})
    return f"{typing_report.table([each.typing for each in typed])}\n\n{ghosts}"


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
    typed: Sequence[TypedModel],
    inside: Mapping[str, inside_line.InsideLineReport],
    passed: Mapping[str, humaneval.PassRates],
) -> str:
    """Return one line of JSON; `humaneval` is null for models not measured on it."""
    models = [
        as_json(report)
        | _typed_json(each)
        | {"inside_line": asdict(inside[report.model]), "humaneval": _plain(passed.get(report.model))}
        for report, each in zip(reports, typed, strict=True)
    ]
    return json.dumps({"data": str(source), "models": models})


def _typed_json(model: TypedModel) -> dict[str, object]:
    ghosts = {arm: asdict(found) for arm, found in model.ghosts.items()}
    return {"typing": asdict(model.typing), "ghosts": ghosts}


def _plain(passed: humaneval.PassRates | None) -> dict[str, dict[str, dict[str, float]]] | None:
    if passed is None:
        return None
    return {kind: {arm: vars(estimate) for arm, estimate in arms.items()} for kind, arms in passed.items()}


@contextmanager
def progress_bars() -> Generator[Progress]:
    """Show a progress bar for each measurement; elsewhere than on a terminal, a line for each tenth of one."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = Bars(*columns, console=Console(file=sys.stdout), disable=not sys.stdout.isatty(), transient=True)
    known: dict[str, TaskID] = {}

    def show(what: str, done: int, whole: int) -> None:
        if what not in known:
            known[what] = bars.add_task(what, total=whole)
        bars.update(known[what], completed=done)
        if bars.disable and done and done * 10 // whole > (done - 1) * 10 // whole:
            print(f"{what}: {done} of {whole}", file=sys.stderr, flush=True)

    with bars:
        yield show
