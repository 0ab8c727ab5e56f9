"""`python -m tests.lsp.tasks.record`: write what the server shows in everyday tasks into their golden file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lsp.tasks.task_file import TASKS, UNJUDGED, Task, read_project, read_tasks, rewritten
from tests.lsp.wire import GHOST_TEXT, REAL, Editor, launched

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
    page = editor.open(f"{above}‸{below}", (folder / task.file).as_uri())
    await editor.ask("efim/settled")  # the files that are not open are known again
    shown: list[str] = []
    for pause in task.pauses():
        for letter in pause.typed:
            page.type(letter)
        shown.append(await page.ghost() or "")
    page.close()
    return shown


async def suggestions(tasks: Sequence[Task]) -> list[list[str]]:
    """Return what a server that has read the project shows in each task, at each pause."""
    files = read_project()
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "shop"
        write_project(folder, files)
        async with launched(REAL) as editor:
            where = [{"uri": folder.as_uri(), "name": "shop"}]
            await editor.start(GHOST_TEXT, REPEATABLE, workspaceFolders=where)
            shown = [await type_task(editor, task, folder, files[task.file]) for task in tasks]
            assert await editor.close() == 0
    return shown


async def record() -> str:
    """Rewrite the golden file; return in one sentence what is left for a person to do."""
    source = TASKS.read_text("utf-8")
    TASKS.write_text(text := rewritten(source, await suggestions(read_tasks(source))), "utf-8")
    tasks = read_tasks(text)
    marks = sum(task.marks.count(UNJUDGED) for task in tasks)
    verdicts = sum(not task.verdict for task in tasks)
    return f"{TASKS.name}: {marks} suggestions and {verdicts} verdicts are to be judged."


if __name__ == "__main__":
    print(asyncio.run(record()))
