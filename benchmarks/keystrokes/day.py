"""What a daemon holds after a day of windows that come and go: `python -m benchmarks.keystrokes.day`. Linux only."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.start_up import daemons, own_folders
from benchmarks.table import show
from editor_clients.headless.client import Editor, editor

SMALLEST, LARGEST = 1_500, 60_000  # bytes of a file
BESIDE = 3  # as many files lie in a repository as are worked in
AGAIN = 3  # new files for each visit that goes back to a file of the same repository
TYPED = ("\n    return value", "  # the next", "\nself.name = name", "\n    for item in items")
TOKENS = ("recomputed", "fetched", "reused")


class Day(NamedTuple):
    """Repositories that are worked in, one after the other, files in each, and keys typed in a visit to a file."""

    repositories: int = 20
    files: int = 15
    keys: int = 6


WHOLE = Day()


def measure(day: Day = WHOLE) -> dict[str, Any]:
    """Return the daemon's MiB after each repository, and the tokens of a key."""
    with own_folders() as folder:
        chance = random.Random(1)
        repositories = [_copied(folder / f"repository{n}", day, chance) for n in range(day.repositories)]
        results = asyncio.run(_lived(repositories, day, chance))
    mib = results["mib"]
    rows = [(n, mib[n - 1]) for n in sorted({1, len(mib) // 2, len(mib)} - {0})]
    show("a day: MiB of the daemon by repositories worked in", ("repositories", "MiB"), rows)
    show("tokens of a key", ("", "tokens"), list(results["tokens_a_key"].items()))
    return results


async def _lived(repositories: list[list[Path]], day: Day, chance: random.Random) -> dict[str, Any]:
    """Work in each repository in a new window, while another window stays; return the costs."""
    counts, keys, mib = dict.fromkeys(TOKENS, 0), 0, list[float]()
    async with editor({"suggestions": 0}):
        [daemon] = daemons()
        for files in repositories:
            async with editor({"suggestions": 0}, folder=files[0].parent) as window:
                await window.settled()
                for file in _visits(files[: day.files], chance):
                    for costs in await _visited(window, file, chance.choice(TYPED)[: day.keys], chance):
                        keys += 1
                        counts = {name: counts[name] + costs[name] for name in TOKENS}
                await window.settled()
            await _left(daemon["pid"])
            mib.append(round(psutil.Process(daemon["pid"]).memory_info().rss / 2**20))
    return {"mib": mib, "keys": keys, "tokens_a_key": {name: round(counts[name] / keys, 1) for name in TOKENS}}


def _visits(files: list[Path], chance: random.Random) -> list[Path]:
    """Return the files in the order in which they are worked in."""
    visits = list[Path]()
    for number, file in enumerate(files, 1):
        visits.append(file)
        if number % AGAIN == 0:
            visits.append(chance.choice(files[:number]))
    return visits


async def _visited(window: Editor, file: Path, keys: str, chance: random.Random) -> list[dict[str, Any]]:
    """Open a file, type keys at the end of a line, and close it; return the costs of each key."""
    text, uri, costs = file.read_text("utf-8"), file.as_uri(), list[dict[str, Any]]()
    window.open(uri, text, "python")
    at = chance.choice([place for place, character in enumerate(text) if character == "\n"])
    for key in keys:
        window.edit(uri, at, 0, key)
        at += 1
        costs.append((await window.complete(uri, at)).costs)
    window.close(uri)
    return costs


async def _left(pid: int) -> None:
    """Wait until the daemon has but the client that stays, and has given back what the other one had."""
    while len(next(each for each in daemons() if each["pid"] == pid)["clients"]) > 1:
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)


def _copied(folder: Path, day: Day, chance: random.Random) -> list[Path]:
    """Copy files of the installed Python into a repository, and return them."""
    library = Path(os.__file__).parent
    fitting = [
        path
        for path in sorted(library.rglob("*.py"))
        if "site-packages" not in path.parts and SMALLEST < path.stat().st_size < LARGEST and _is_text(path)
    ]
    folder.mkdir()
    chosen = chance.sample(fitting, day.files * BESIDE)
    return [shutil.copyfile(path, folder / f"{number}.py") for number, path in enumerate(chosen)]


def _is_text(path: Path) -> bool:
    content = path.read_bytes()
    return b"\r" not in content and b"\n" in content and content.isascii()


if __name__ == "__main__":
    print(json.dumps(measure()))
