"""HumanEval-Infilling: the share of functions that pass their tests once a model has filled a hole in them.

The tasks are Bavarian et al.'s (arXiv 2207.14255), in the files of github.com/openai/human-eval-infilling.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.arms import EFIM, FIM, SERVER
from efim_lab.gate.evaluation.figures.intervals import Estimate, proportion
from efim_lab.gate.evaluation.held_out import Progress, model_name, silent
from efim_lab.gate.evaluation.humaneval import sandbox
from efim_lab.gate.evaluation.measured_model import LINE, UNTIL_END, MeasuredModel
from efim_lab.gate.evaluation.places.cursors import context_at, draw_increment

SINGLE_LINE, MULTI_LINE, RANDOM_SPAN = "single line", "multi-line", "random span"
FILES = {
    SINGLE_LINE: "HumanEval-SingleLineInfilling.jsonl.gz",
    RANDOM_SPAN: "HumanEval-RandomSpanInfillingLight.jsonl.gz",
}
TASK_ARMS = (FIM, EFIM, SERVER)
MULTI_LINE_TASKS = 500  # drawn from 5,815; all of them would take an hour
LONGEST_TASK_COMPLETION = 128  # tokens
PROGRAMS = 2  # run at a time

PassRates = Mapping[str, Mapping[str, Estimate]]  # pass@1 by kind of task and by arm


@dataclass(frozen=True)
class InfillingTask:
    """A function with a hole between `prompt` and `suffix`; `test` defines `check(function)`."""

    prompt: str
    suffix: str
    test: str
    entry_point: str

    def program(self, completion: str) -> str:
        """Return the function with its hole filled, followed by its test."""
        return f"{self.prompt}{completion}{self.suffix}\n{self.test}\ncheck({self.entry_point})\n"


def read(folder: Path) -> dict[str, list[InfillingTask]]:
    """Read both files of tasks, by kind; raises WorkError if one is missing or damaged."""
    sandbox.check()
    tasks = {kind: _read(folder / name) for kind, name in FILES.items()}
    several = multi_line(tasks[SINGLE_LINE])
    drawn = random.Random(0).sample(several, min(MULTI_LINE_TASKS, len(several)))
    return {SINGLE_LINE: tasks[SINGLE_LINE], MULTI_LINE: drawn, RANDOM_SPAN: tasks[RANDOM_SPAN]}


def multi_line(single: Sequence[InfillingTask]) -> list[InfillingTask]:
    """Return the tasks of the benchmark's third kind: the holes from any line of a function to any not before it.

    They follow from the single lines, which come function by function, in order; of HumanEval's, these are 5,815.
    """
    functions: dict[str, list[InfillingTask]] = {}
    for task in single:
        functions.setdefault(task.test + task.entry_point, []).append(task)
    return [
        replace(first, suffix=last.suffix)
        for lines in functions.values()
        for at, first in enumerate(lines)
        for last in lines[at:]
    ]


def measure(folder: Path, tasks: Mapping[str, Sequence[InfillingTask]], progress: Progress = silent) -> PassRates:
    """Fill every hole greedily with the model in `folder`, and run the programs."""
    subject, name = MeasuredModel(folder), model_name(folder)
    return {kind: _passed(subject, kind, some, f"{name}, {kind}", progress) for kind, some in tasks.items()}


def _passed(
    subject: MeasuredModel, kind: str, tasks: Sequence[InfillingTask], what: str, progress: Progress
) -> dict[str, Estimate]:
    """Return pass@1 by arm; programs run while the next ones are generated."""
    rng = random.Random(0)
    running = {arm.name: list[Future[bool]]() for arm in TASK_ARMS}
    with ThreadPoolExecutor(PROGRAMS) as pool:
        for done, task in enumerate(tasks):
            progress(what, done, len(tasks))
            for arm, completion in _completions(subject, kind, task, draw_increment(rng)).items():
                running[arm].append(pool.submit(sandbox.passes, task.program(completion)))
    progress(what, len(tasks), len(tasks))
    return {arm: proportion([each.result() for each in futures]) for arm, futures in running.items()}


def _completions(subject: MeasuredModel, kind: str, task: InfillingTask, increment: int) -> dict[str, str]:
    """Complete a task with each arm; the whole suffix is in the prompt, even if it begins inside a line."""
    context = context_at(task.prompt + task.suffix, len(task.prompt), len(task.prompt), increment)
    prompts = subject.prompts(context, TASK_ARMS, LONGEST_TASK_COMPLETION)
    rule, end = (LINE, "\n") if kind == SINGLE_LINE else (UNTIL_END, "")
    return {
        arm.name: subject.complete(arm, prompt, rule, LONGEST_TASK_COMPLETION) + end
        for arm, prompt in zip(TASK_ARMS, prompts, strict=True)
    }


def _read(path: Path) -> list[InfillingTask]:
    names = ("prompt", "suffix", "test", "entry_point")
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            tasks = [InfillingTask(*(json.loads(line)[name] for name in names)) for line in lines]
    except FileNotFoundError:
        source = "github.com/openai/human-eval-infilling has it"
        raise WorkError(f"{path.parent} has no {path.name}: {source}") from None
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise WorkError(f"{path} is damaged ({error}): fetch it again") from error
    if not tasks:
        raise WorkError(f"{path} has no task: fetch it again")
    return tasks
