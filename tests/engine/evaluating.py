"""What evaluation is tested on: HumanEval-Infilling's tasks in small, and a model with n-grams of its own."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from efim_lab.gate.evaluation.humaneval import tasks as humaneval
from efim_lab.gate.evaluation.humaneval.tasks import InfillingTask
from model_runtime.engine.ngrams import NGRAMS_FILE, Ngrams


def task(name: str, prompt: str, suffix: str, test: str) -> InfillingTask:
    """A task whose test is one line."""
    return InfillingTask(prompt, suffix, f"def check(candidate):\n    {test}\n", name)


ONE, TWO = (task("f", "def f():\n", f"    return {n}\n", f"assert candidate() == {n}") for n in (1, 2))
WRONG = task("f", "def f():\n", "    return 3\n", "assert candidate() == 4")


def write_tasks(folder: Path, tasks: Sequence[InfillingTask] = (ONE, WRONG)) -> Path:
    """Write the same tasks of each kind; returns the folder."""
    folder.mkdir(exist_ok=True)
    for name in humaneval.FILES.values():
        with gzip.open(folder / name, "wt") as file:
            file.writelines(json.dumps(vars(each) | {"task_id": "x"}) + "\n" for each in tasks)
    return folder


def with_ngrams(folder: Path, copy: Path) -> Path:
    """Copy a model and give it n-grams that rule wherever the text's end was there before."""
    shutil.copytree(folder, copy)
    (copy / NGRAMS_FILE).write_text(Ngrams((0.0, 1.0, 1.0, 1.0), 500.0).to_json())
    return copy
