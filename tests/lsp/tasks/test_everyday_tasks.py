"""Everyday tasks, typed into the real server: what is shown at each pause, and how useful a person finds it."""

from __future__ import annotations

import ast
from difflib import unified_diff

import pytest
import pytest_asyncio

from tests.lsp.tasks.record import suggestions
from tests.lsp.tasks.task_file import (
    MARKS,
    PAUSE,
    TASKS,
    UNJUDGED,
    Task,
    drawing,
    judged,
    read_project,
    read_tasks,
    rewritten,
    suggestions_in,
)

USEFUL = 10  # of fifteen; may only rise
RENEW = f"Run `python -m tests.lsp.tasks.record` to renew {TASKS.name}, then judge what it leaves open."

SOURCE = TASKS.read_text("utf-8")
TASKS_READ = read_tasks(SOURCE)
each_task = pytest.mark.parametrize("task", TASKS_READ, ids=lambda task: task.name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers() -> dict[str, list[str]]:
    """What the server shows, by the task's name."""
    return {task.name: shown for task, shown in zip(TASKS_READ, await suggestions(TASKS_READ), strict=True)}


@each_task
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_shown_is_what_was_judged(task: Task, answers: dict[str, list[str]]) -> None:
    recorded, shown = task.shown, task.rows(answers[task.name])
    lines = unified_diff(recorded.splitlines(), shown.splitlines(), "recorded", "shown now", lineterm="")
    if recorded != shown:
        pytest.fail("\n".join([f"other suggestions in task {task.name}. {RENEW}", *lines]), pytrace=False)


@each_task
def test_a_person_has_judged_each_task_by_the_rule(task: Task) -> None:
    assert set(task.marks) <= {*MARKS} - {UNJUDGED}, f"task {task.name} has suggestions without a mark: judge them"
    assert task.verdict, f"task {task.name} has no verdict: judge it; by its marks it is {task.due_verdict()}"
    assert task.verdict == task.due_verdict(), "the verdict does not follow from the marks"


def test_enough_tasks_are_useful() -> None:
    assert sum(task.verdict == "useful" for task in TASKS_READ) >= USEFUL


@each_task
def test_a_task_is_python_that_fits_into_its_file(task: Task) -> None:
    above, below = task.split(read_project()[task.file])
    ast.parse(above + "\n" + task.types.replace(PAUSE, "").removesuffix("\n") + below)
    assert 4 <= len(task.pauses()) <= 8


@pytest.mark.parametrize(
    ("suggestion", "mark"),
    [("", "-"), ("product", "right"), ("product(self", "right"), ("product(cls", "begins"), ("products", "?"),
     ("prod", "right"), ("prod(self", "?"), ("(self", "?")],
)  # fmt: skip
def test_a_suggestion_is_compared_with_the_text(suggestion: str, mark: str) -> None:
    assert judged(suggestion, "product(self, sku)") == mark


def test_a_suggestion_is_drawn_in_one_line() -> None:
    assert drawing("a:\n    '''b ") == "a:↵    ‴b␣"


def test_renewing_keeps_text_comments_and_marks_where_nothing_changed() -> None:
    before = """# A comment.

[[task]]
name = "one"
file = "a.py"
below = "a"
types = '''
b‸ = c.‸d
'''
shown = '''
fits     b‸: int
right    b = c.‸d
'''
verdict = "useful"

# Another.
[[task]]
name = "two"
file = "a.py"
below = "a"
types = '''
e‸f
'''
"""
    same = rewritten(before, [[": int", "d"], [""]])
    assert suggestions_in(read_tasks(same)[0].shown) == ["b‸: int", "b = c.‸d"]
    assert [task.verdict for task in read_tasks(same)] == ["useful", ""]
    assert read_tasks(same)[0].marks == ["fits", "right"] and "# Another." in same
    assert same.index("shown = ") < same.index("# Another.") < same.index('name = "two"')
    other = rewritten(same, [[": str", "d"], [""]])
    assert read_tasks(other)[0].marks == ["?", "right"] and read_tasks(other)[0].verdict == ""
    assert rewritten(other, [[": str", "d"], [""]]) == other
