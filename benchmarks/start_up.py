"""What a start costs, and what clients cost that share a server: `python -m benchmarks.start_up`. Linux only."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import psutil

from benchmarks.table import show
from editor_clients.headless.client import Editor, editor

COMMAND = (sys.executable, "-m", "efim_ls")
REPEATS, CLIENTS, KILLS = 9, 4, 5
ALONE, SHARED = {"shared": False}, dict[str, object]()
PACKAGES = ("asyncio", "email", "json", "xml", "html", "http")  # together 1.2 MB of source
KEYS = "    value = self.compute("


def measure() -> dict[str, Any]:
    """Measure starts and memory, with separate sockets and a separate cache."""
    with own_folders() as folder:
        files = _repository(folder / "repository")
        _completed(files[0])  # writes what later starts read
        results: dict[str, Any] = {"complete": _times(files[0])}
        results |= asyncio.run(_served(folder / "repository", files))
        results |= asyncio.run(_windows(_library(folder / "library"), files[0]))
    rows = [(name, *figures.values()) for name, figures in results["complete"].items()]
    show("`efim-ls complete`, medians of 9", ("", "seconds", "CPU seconds"), rows)
    show("servers", ("", ""), [(name, figure) for name, figure in results.items() if name != "complete"])
    return results


def _times(file: Path) -> dict[str, dict[str, float]]:
    """Return medians of a command alone and with a daemon, in turns."""
    sides: dict[str, list[tuple[float, float]]] = {"alone": [], "joined to a daemon": []}
    for _ in range(REPEATS):
        sides["alone"].append(_completed(file))
        asyncio.run(_beside_daemon(sides["joined to a daemon"], file))
        _stop()
    return {
        side: {"seconds": median(each[0] for each in figures), "cpu_seconds": median(each[1] for each in figures)}
        for side, figures in sides.items()
    }


async def _beside_daemon(figures: list[tuple[float, float]], file: Path) -> None:
    async with editor(SHARED):
        _completed(file)  # the first one loads code that only it needs
        figures.append(_completed(file))


def _completed(file: Path) -> tuple[float, float]:
    """Return seconds and CPU seconds of a completion at line 100 of a file."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run([*COMMAND, "complete", f"{file}:100:9"], check=True, capture_output=True)
    seconds, after = perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _served(repository: Path, files: list[Path]) -> dict[str, Any]:
    """Return seconds to a first suggestion, MiB by clients, and seconds until a killed daemon's successor answers."""
    alone, first, second = list[float](), list[float](), list[float]()
    for _ in range(REPEATS):
        alone.append(await _first_suggestion(ALONE, files[0]))
        first.append(await _first_suggestion(SHARED, files[0]))
        second.append(await _first_suggestion(SHARED, files[0]))
        _stop()
    mib = {name: await _mib(settings, repository, files) for name, settings in (("alone", ALONE), ("shared", SHARED))}
    _stop()
    return {
        "first_suggestion_alone_seconds": median(alone),
        "first_suggestion_of_a_daemon_seconds": median(first),
        "first_suggestion_joined_seconds": median(second),
        **{f"mib_of_{count}_{name}": figures[count - 1] for name, figures in mib.items() for count in (1, CLIENTS)},
        **{f"clients_ratio_{name}": figures[CLIENTS - 1] / figures[0] for name, figures in mib.items()},
        "after_a_kill_seconds": median(await _after_kills(files[0])),
    }


async def _first_suggestion(settings: Mapping[str, object], file: Path) -> float:
    """Return the seconds from the start of a client's process to its first suggestion."""
    began = perf_counter()
    async with editor(settings) as headless:
        await _type(headless, file, "v")
        return perf_counter() - began


async def _mib(settings: Mapping[str, object], repository: Path, files: list[Path]) -> list[float]:
    """Return the MiB in memory of all processes with one client, with two and so on, each typing in a file."""
    found = list[float]()
    async with AsyncExitStack() as stack:
        for file in files[:CLIENTS]:
            headless = await stack.enter_async_context(editor(settings, folder=repository))
            await headless.settled()
            await _type(headless, file, KEYS)
            await headless.settled()
            pids = {each.pid for each in psutil.Process().children(recursive=True)} | {
                each["pid"] for each in daemons()
            }
            found.append(sum(psutil.Process(pid).memory_info().rss for pid in pids) / 2**20)
    return found


async def _windows(workspace: Path, file: Path) -> dict[str, float]:
    """Return the daemon's MiB with one window of a large workspace and with four, of which one has a document."""
    found = list[float]()
    async with AsyncExitStack() as stack:
        for _ in range(CLIENTS):
            headless = await stack.enter_async_context(editor(SHARED, folder=workspace))
            await headless.settled()
            if not found:
                await _type(headless, file, KEYS)
                await headless.settled()
            [daemon] = daemons()
            found.append(psutil.Process(daemon["pid"]).memory_info().rss / 2**20)
    one, four = found[0], found[CLIENTS - 1]
    return {"daemon_mib_of_1_window": one, f"daemon_mib_of_{CLIENTS}_windows": four, "windows_ratio": four / one}


async def _after_kills(file: Path) -> list[float]:
    """Return the seconds from the death of a daemon to the next one's answer."""
    found = list[float]()
    async with editor(SHARED) as headless:
        await _type(headless, file, KEYS)
        for _ in range(KILLS):
            [daemon] = daemons()
            os.kill(daemon["pid"], signal.SIGKILL)
            began = perf_counter()
            await headless.status()
            found.append(perf_counter() - began)
    return found


async def _type(headless: Editor, file: Path, keys: str) -> None:
    """Type in the middle of a file, with a completion after each key."""
    text, uri = file.read_text("utf-8"), file.as_uri()
    headless.open(uri, text, "python")
    at = text.index("\n", len(text) // 2) + 1
    for key in keys:
        headless.edit(uri, at, 0, key)
        at += 1
        await headless.complete(uri, at)


def daemons() -> list[dict[str, Any]]:
    """Return what `efim-ls status` tells of the daemons that run."""
    finished = subprocess.run([*COMMAND, "status", "--json"], check=True, capture_output=True)
    return [json.loads(line) for line in finished.stdout.splitlines()]


def _stop() -> None:
    subprocess.run([*COMMAND, "stop"], check=True, capture_output=True)


def _repository(folder: Path) -> list[Path]:
    """Copy a megabyte of the installed Python; return files of some size, the same ones on each machine."""
    library = Path(os.__file__).parent
    for name in PACKAGES:
        shutil.copytree(library / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return sorted(path for path in folder.rglob("*.py") if path.stat().st_size > 20_000)


def _library(folder: Path) -> Path:
    """Copy all of the installed Python's own library: a large workspace."""
    ignored = shutil.ignore_patterns("__pycache__", "site-packages", "dist-packages", "*.so", "*.a")
    return shutil.copytree(Path(os.__file__).parent, folder, ignore=ignored)


@contextmanager
def own_folders() -> Iterator[Path]:
    """Keep daemons and caches apart from the user's."""
    with TemporaryDirectory(prefix="efim-bench-") as folder:
        mine = {"XDG_RUNTIME_DIR": folder, "XDG_CACHE_HOME": f"{folder}/cache"}
        before = {name: os.environ.get(name) for name in mine}
        os.environ |= mine
        try:
            yield Path(folder)
        finally:
            _stop()
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


if __name__ == "__main__":
    print(json.dumps(measure()))
