"""The golden file of everyday tasks: what a person wrote there, and how suggestions are drawn beside it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model_runtime.checkpoint.embedded import EMBEDDED

GOLDEN = Path(__file__).parents[2] / "golden" / "tasks"
PAUSE = "‸"
UNJUDGED = "?"
TAKEN = ("right", "begins", "fits")
MARKS = (*TAKEN, "wrong", "-", UNJUDGED)
MARK_WIDTH = 9
TEXT = re.compile(r"^types = '''\n.*?^'''\n", re.DOTALL | re.MULTILINE)
JUDGED = re.compile(r"^shown = '''\n.*?^'''\n|^verdict = [^\n]*\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class TaskSet:
    """A golden file of tasks, the project in which they are done, and how many are useful, which may only rise.

    `model` is the setting: the folder of a model that the server does not bring.
    """

    tasks: Path
    project: Path
    useful: int
    model: Path | None = None

    def read(self) -> list[Task]:
        """Return the tasks."""
        return read_tasks(self.tasks.read_text("utf-8"))

    def files(self) -> dict[str, str]:
        """Return the texts of the project's files by path."""
        return {file["path"]: file["text"] for file in tomllib.loads(self.project.read_text("utf-8"))["file"]}


PYTHON = TaskSet(GOLDEN / "tasks.toml", GOLDEN / "shop.toml", 10)
TYPESCRIPT = TaskSet(GOLDEN / "typescript.toml", GOLDEN / "library.toml", 5)
GO = TaskSet(GOLDEN / "go.toml", GOLDEN / "depot.toml", 5, EMBEDDED.with_name("go"))
# Languages of one model: the project of their tasks, and how many of these are useful.
MORE = {
    "c": ("gauge", 3), "cpp": ("orchard", 4), "java": ("ferry", 1), "php": ("cinema", 2), "ruby": ("bakery", 3),
    "rust": ("apiary", 3), "shell": ("attic", 2),
}  # fmt: skip
TASK_SETS = (
    PYTHON,
    TYPESCRIPT,
    GO,
    *(
        TaskSet(GOLDEN / f"{name}.toml", GOLDEN / f"{project}.toml", useful, EMBEDDED.with_name("more"))
        for name, (project, useful) in MORE.items()
    ),
)


@dataclass(frozen=True)
class Pause:
    """A place where the programmer looks: what he has typed since the last one, and what he will type."""

    typed: str
    line: str
    wanted: str


@dataclass(frozen=True)
class Task:
    """A task as it stands in the golden file; `types` has a mark at each pause."""

    name: str
    file: str
    below: str
    types: str
    shown: str = ""
    verdict: str = ""

    def split(self, text: str) -> tuple[str, str]:
        """Return the file's text above the cursor and below it."""
        line = "\n" + self.below.strip("\n") + "\n"
        assert ("\n" + text).count(line) == 1, f"the line above the cursor is not unique in {self.file}"
        end = ("\n" + text).index(line) + len(line) - 2
        return text[:end], text[end:]

    def pauses(self) -> list[Pause]:
        """Return the pauses in order; the first thing typed is a new line."""
        pieces = ("\n" + self.types.removesuffix("\n")).split(PAUSE)
        return [
            Pause(pieces[n], "".join(pieces[: n + 1]).rpartition("\n")[2], "".join(pieces[n + 1 :]))
            for n in range(len(pieces) - 1)
        ]

    @property
    def marks(self) -> list[str]:
        """The marks in the lines of `shown`."""
        return [line[:MARK_WIDTH].strip() for line in self.shown.splitlines()]

    def rows(self, suggestions: Sequence[str]) -> str:
        """Draw a line for each pause, with the marks that a person made where the suggestion is the same."""
        before = {line[MARK_WIDTH:]: line[:MARK_WIDTH].strip() for line in self.shown.splitlines()}
        drawn: list[str] = []
        for pause, suggestion in zip(self.pauses(), suggestions, strict=True):
            row = f"{pause.line}{PAUSE}{drawing(suggestion)}"
            mark = judged(suggestion, pause.wanted)
            if mark == UNJUDGED and before.get(row) in ("fits", "wrong"):
                mark = before[row]
            drawn.append(f"{mark:<{MARK_WIDTH}}{row}\n")
        return "".join(drawn)

    def due_verdict(self) -> str:
        """Return the verdict that follows from the marks by the rule in the golden file."""
        marks = self.marks
        taken = sum(mark in TAKEN for mark in marks)
        wrong = [row.partition(PAUSE)[2] for row in self.shown.splitlines() if row.startswith("wrong")]
        if taken * 2 >= len(marks) and not any("↵" in text.strip("↵") for text in wrong):
            return "useful"
        if taken * 4 >= len(marks):
            return "partly"
        return "wrong" if len(wrong) * 4 >= len(marks) else "nothing"


def drawing(suggestion: str) -> str:
    """Draw a suggestion in one line that stands in a literal string of TOML and does not end with a blank."""
    text = suggestion.replace("\n", "↵").replace("'''", "‴")
    return text[:-1] + "␣" if text.endswith(" ") else text


def judged(suggestion: str, wanted: str) -> str:
    """Return a suggestion's mark as far as no person is needed."""
    if not suggestion:
        return "-"
    if wanted.startswith(suggestion):
        return "right"
    first = re.match(r"\W*\w+", suggestion)
    is_begun = first is not None and re.match(re.escape(first[0]) + r"(?!\w)", wanted)
    return "begins" if is_begun else UNJUDGED


def read_tasks(source: str) -> list[Task]:
    """Return the tasks of the golden file's text."""
    return [Task(**raw) for raw in tomllib.loads(source)["task"]]


def rewritten(source: str, answers: Sequence[Sequence[str]]) -> str:
    """Return the golden file's text with what is shown now, without the verdicts of tasks where that changed."""
    header, *blocks = re.split(r"^(?=\[\[task\]\]\n)", source, flags=re.MULTILINE)
    tasks = read_tasks(source)
    for n, (task, suggestions) in enumerate(zip(tasks, answers, strict=True)):
        rows = task.rows(suggestions)
        is_same = suggestions_in(rows) == suggestions_in(task.shown)
        text, rest = split_after(TEXT, JUDGED.sub("", blocks[n]))
        blocks[n] = f"{text}shown = '''\n{rows}'''\nverdict = \"{task.verdict if is_same else ''}\"\n{rest}"
    return header + "".join(blocks)


def split_after(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    """Split a text behind the first match of a pattern."""
    found = pattern.search(text)
    assert found is not None
    return text[: found.end()], text[found.end() :]


def suggestions_in(shown: str) -> list[str]:
    """Return lines of `shown` without their marks."""
    return [line[MARK_WIDTH:] for line in shown.splitlines()]
