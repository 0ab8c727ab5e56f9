"""`python -m tests.lsp.tasks.record`: write what the server shows in everyday tasks into their golden files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from efim_ls.languages.table import language_of
from tests.lsp.tasks.task_file import TASK_SETS, UNJUDGED, Task, TaskSet, read_tasks, rewritten
from tests.lsp.wire import ALONE, GHOST_TEXT, Editor, launched

# With these the same text gets the same answer on a busy machine: by default a server times which weights are the
# fastest, computes ahead if there is time, and takes up what it kept. All other settings are the defaults.
REPEATABLE: dict[str, object] = {"weights": "int8", "prefetch_seconds_per_minute": 0, "persist": False}


def write_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write the project's files into a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


async def type_task(editor: Editor, task: Task, folder: Path, text: str) -> list[str]:
    """Type a task in its file, letter by letter; return what is shown at each pause."""
    above, below = task.split(text)
    page = editor.open(f"{above}‸{below}", (folder / task.file).as_uri(), language_of(task.file))
    await editor.ask("efim/settled")  # the files that are not open are known again
    shown: list[str] = []
    for pause in task.pauses():
        for letter in pause.typed:
            page.type(letter)
        shown.append(await page.ghost() or "")
    page.close()
    return shown


async def suggestions(tasks: TaskSet) -> list[list[str]]:
    """Return what a server that has read the project shows in each task, at each pause."""
    files, name = tasks.files(), tasks.project.stem
    with TemporaryDirectory() as parent:
        folder = Path(parent) / name
        write_project(folder, files)
        async with launched(ALONE) as editor:
            where = [{"uri": folder.as_uri(), "name": name}]
            settings = REPEATABLE | ({"model": str(tasks.model)} if tasks.model else {})
            await editor.start(GHOST_TEXT, settings, workspaceFolders=where)
            shown = [await type_task(editor, task, folder, files[task.file]) for task in tasks.read()]
            assert await editor.close() == 0
    return shown


async def record(tasks: TaskSet) -> str:
    """Rewrite a golden file; return in one sentence what is left for a person to do."""
    text = rewritten(tasks.tasks.read_text("utf-8"), await suggestions(tasks))
    tasks.tasks.write_text(text, "utf-8")
    written = read_tasks(text)
    marks = sum(task.marks.count(UNJUDGED) for task in written)
    verdicts = sum(not task.verdict for task in written)
    return f"{tasks.tasks.name}: {marks} suggestions and {verdicts} verdicts are to be judged."


if __name__ == "__main__":
    for each in TASK_SETS:
        print(asyncio.run(record(each)))
