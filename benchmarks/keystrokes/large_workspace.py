"""A workspace of a million lines: what its index costs, and whether typing feels it.

`python -m benchmarks.keystrokes.large_workspace`. Linux only: CPU time and memory are read from /proc.
"""

from __future__ import annotations

import asyncio
import json
import os
import sysconfig
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.children import children_mib, children_seconds, others_seconds
from benchmarks.keystrokes.demo_session import demo_session, type_keys
from benchmarks.table import show
from editor_clients.headless.client import Editor, editor
from efim_lab.gate.replay.report import percentile
from efim_lab.gate.replay.trace import part

KEY_SECONDS = 0.1
SMALLEST, LARGEST = 200, 400_000  # bytes of a file
A_FOLDER = 200  # files


class Size(NamedTuple):
    """The least numbers of lines and files, keys typed in a round, rounds, and seconds of rest."""

    lines: int = 1_000_000
    files: int = 10_000
    keys: int = 200
    rounds: int = 2
    idle_seconds: float = 10.0


FULL = Size()


def measure(size: Size = FULL) -> dict[str, Any]:
    """Index the workspace with the embedded model's server, then type in it while nothing and while all files change.

    `others` is the number of cores that other programs kept busy.
    """
    with TemporaryDirectory() as place:
        folder, cache = Path(place, "project"), Path(place, "cache")
        made = make_workspace(folder, size)
        began = perf_counter(), others_seconds()
        found = asyncio.run(_measured(folder, cache, size))
        busy = (others_seconds() - began[1]) / (perf_counter() - began[0])
    figures = {"files": len(made), "lines": sum(made.values()), **found, "others": busy}
    show("a large workspace", ("figure", "value"), figures.items())
    return figures


def make_workspace(folder: Path, size: Size) -> dict[Path, int]:
    """Write the installed Python's sources into folders of other names, the smallest first; of few, copies.

    Return the lines of each file; no two have the same text.
    """
    paths, made = sysconfig.get_paths(), dict[Path, int]()
    found = {path for name in ("stdlib", "purelib") for path in Path(paths[name]).rglob("*.py") if path.is_file()}
    total = 0
    for number, source in enumerate(cycle(sorted(found, key=lambda path: (path.stat().st_size, path)))):
        if len(made) >= size.files and total >= size.lines:
            return made
        text = source.read_bytes() + b"\n# %d\n" % number
        if SMALLEST <= len(text) <= LARGEST:
            path = folder / f"part{len(made) // A_FOLDER}" / f"{source.stem}_{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            made[path] = text.count(b"\n")
            total += made[path]
    return made


async def _measured(folder: Path, cache: Path, size: Size) -> dict[str, Any]:
    settings = {"cache_folder": str(cache), "shared": False}
    without = {**settings, "other_files": "off"}
    async with editor(without, folder=folder):
        pass  # the first server writes what all others read
    began = perf_counter()
    async with editor(without, folder=folder) as headless:
        first_without = await _first_answer(headless, folder, began)
        await _typed(headless, folder, size)
        mib_without = children_mib()
    began = perf_counter()
    async with editor(settings, folder=folder) as headless:
        ready, cpu = perf_counter(), children_seconds()
        first = await _first_answer(headless, folder, began)
        await headless.settled()
        wall, cpu = perf_counter() - ready, children_seconds() - cpu
        indexed: dict[str, Any] = (await headless.status())["repository"]
        disk = sum(path.stat().st_size for path in (cache / "repositories").iterdir()) / 1e6
        await _typed(headless, folder, size)
        await headless.settled()
        beyond = children_mib() - mib_without - indexed["mib"]
        saved = await _save_seen(headless, folder)
        idle = await _idle(headless, size)
        typed = await _typed_in_turns(headless, folder, size)
    return {
        "index_cpu_seconds": cpu,
        "index_wall_seconds": wall,
        "files_in_memory": indexed["files"],
        "tokens_in_memory": indexed["tokens"],
        "disk_mb": disk,
        "mib_beyond_memory": beyond,
        "first_answer_seconds": first,
        "first_answer_seconds_without": first_without,
        "save_seen_seconds": saved,
        "idle_cpu_seconds_per_minute": idle,
        **typed,
        "restart_seconds": await _restart(settings, folder),
    }


async def _first_answer(headless: Editor, folder: Path, began: float) -> float:
    """Return the seconds from a server's start to its first answer."""
    recorded, uri = part(demo_session(), 0, 1), (folder / "part0" / "first.py").as_uri()
    headless.open(uri, recorded.start, "python")
    await headless.suggestion(uri, len(recorded.start))
    headless.close(uri)
    return perf_counter() - began


async def _typed(headless: Editor, folder: Path, size: Size) -> list[float]:
    """Type into a document of the first folder, and return the milliseconds of each answer."""
    recorded, uri = part(demo_session(), 0, size.keys), (folder / "part0" / "typed.py").as_uri()
    headless.open(uri, recorded.start, "python")
    milliseconds = list[float]()
    async for cursor in type_keys(headless, uri, recorded.events, KEY_SECONDS):
        asked = perf_counter()
        await headless.suggestion(uri, cursor)
        milliseconds.append((perf_counter() - asked) * 1e3)
    headless.close(uri)
    return milliseconds


async def _save_seen(headless: Editor, folder: Path) -> float:
    """Return the seconds until a file that another program writes is counted."""
    before = (await headless.status())["repository"]["tokens"]
    began = perf_counter()
    _switch_branch(sorted((folder / "part0").iterdir())[:1])
    while (await headless.status())["repository"]["tokens"] == before:
        await asyncio.sleep(0.01)
    return perf_counter() - began


async def _idle(headless: Editor, size: Size) -> float:
    """Return the CPU seconds a minute of a server that is left alone."""
    await headless.settled()
    before = children_seconds()
    await asyncio.sleep(size.idle_seconds)
    return (children_seconds() - before) / size.idle_seconds * 60


async def _typed_in_turns(headless: Editor, folder: Path, size: Size) -> dict[str, float]:
    """Type while nothing changes, and while `size.files` files do, in turns."""
    files = sorted(folder.rglob("*.py"))[: size.files]
    quiet, switching = list[float](), list[float]()
    for _ in range(size.rounds):
        quiet += await _typed(headless, folder, size)
        await headless.settled()
        switch = asyncio.create_task(asyncio.to_thread(_switch_branch, files))
        switching += await _typed(headless, folder, size)
        await switch
        await headless.settled()
    kinds = {"quiet": quiet, "switching": switching}
    return {f"{kind}_p{q}_ms": percentile(each, q) for kind, each in kinds.items() for q in (50, 95)}


def _switch_branch(files: Sequence[Path]) -> None:
    """Change files as a switch of branches does, one right after the other."""
    for path in files:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"branch = {os.urandom(4).hex()!r}\n")


async def _restart(settings: dict[str, object], folder: Path) -> float:
    """Return the seconds until a server that starts again counts the first files, from when its model is ready."""
    async with editor(settings, folder=folder) as headless:
        began = perf_counter()
        while not ((await headless.status())["repository"] or {"tokens": 0})["tokens"]:
            await asyncio.sleep(0.01)
        return perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(measure()))
