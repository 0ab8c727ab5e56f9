"""Everyday tasks, typed into the real server: what is shown at each pause, and how useful a person finds it."""

from __future__ import annotations

import asyncio
from difflib import unified_diff

import pytest
import pytest_asyncio
from tree_sitter import Parser

from efim_ls.languages.table import LANGUAGES, language_of
from efim_ls.text.grammars import grammar_of, loaded
from tests.lsp.tasks.record import suggestions
from tests.lsp.tasks.task_file import (
    MARKS,
    PAUSE,
    TASK_SETS,
    UNJUDGED,
    Task,
    TaskSet,
    drawing,
    judged,
    read_tasks,
    rewritten,
    suggestions_in,
)

RENEW = "Run `python -m tests.lsp.tasks.record`, then judge what it leaves open."

SETS = {tasks.tasks.stem: tasks for tasks in TASK_SETS}
ALL_TASKS = {f"{name}: {task.name}": (name, task) for name, tasks in SETS.items() for task in tasks.read()}
each_task = pytest.mark.parametrize(("name", "task"), ALL_TASKS.values(), ids=ALL_TASKS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers() -> dict[tuple[str, str], list[str]]:
    """What servers show, one for each golden file, by the file's name and the task's."""
    answers = await asyncio.gather(*map(suggestions, SETS.values()))  # much of it waits for a pause in typing
    return {
        (name, task.name): shown
        for (name, tasks), each in zip(SETS.items(), answers, strict=True)
        for task, shown in zip(tasks.read(), each, strict=True)
    }


@each_task
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_shown_is_what_was_judged(
    name: str, task: Task, answers: dict[tuple[str, str], list[str]]
) -> None:
    recorded, shown = task.shown, task.rows(answers[name, task.name])
    lines = unified_diff(recorded.splitlines(), shown.splitlines(), "recorded", "shown now", lineterm="")
    if recorded != shown:
        pytest.fail("\n".join([f"other suggestions in task {task.name}. {RENEW}", *lines]), pytrace=False)


@each_task
def test_a_person_has_judged_each_task_by_the_rule(name: str, task: Task) -> None:
    assert set(task.marks) <= {*MARKS} - {UNJUDGED}, f"task {task.name} has suggestions without a mark: judge them"
    assert task.verdict, f"task {task.name} has no verdict: judge it; by its marks it is {task.due_verdict()}"
    assert task.verdict == task.due_verdict(), "the verdict does not follow from the marks"


@pytest.mark.parametrize("tasks", TASK_SETS, ids=SETS)
def test_enough_tasks_are_useful(tasks: TaskSet) -> None:
    assert sum(task.verdict == "useful" for task in tasks.read()) >= tasks.useful


@each_task
def test_a_task_is_code_that_fits_into_its_file(name: str, task: Task) -> None:
    above, below = task.split(SETS[name].files()[task.file])
    language = LANGUAGES[language_of(task.file)]
    grammar = loaded(language.mixed) if language.mixed else grammar_of(language.id)
    assert grammar is not None
    code = above + "\n" + task.types.replace(PAUSE, "").removesuffix("\n") + below
    assert not Parser(grammar).parse(code.encode()).root_node.has_error
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
