"""The demo's session typed at a fast typist's pace, on a quiet machine and with two busy processes.

Linux only: CPU time is read from /proc.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.children import children_seconds, others_seconds
from benchmarks.keystrokes.demo_session import demo_session, type_keys
from benchmarks.table import show
from editor_clients.headless.client import Editor, editor
from editor_clients.headless.connection import Connection
from efim_lab.gate.replay.report import percentile
from efim_lab.gate.replay.trace import part

KEYS, KEY_SECONDS = 200, 0.1
ROUNDS = 3
BUSY = 2
IDLE_SECONDS = 5.0
TARGET = 3.0
SETTINGS = {"persist": False, "shared": False}
HEADER = ("milliseconds", "keys", "p50", "p90", "p90 to quiet p50", "server's p50", "p90")


class BusyKeystroke(NamedTuple):
    """One request: milliseconds as the client sees them and as the server tells them, and whether the model ran."""

    round_trip: float
    total: float
    model: bool


class SharedSession(Connection):
    """A server in the session of the busy processes: Linux may share time out by session, then by niceness."""

    async def start_io(self, cmd: str, *args: str, **options: Any) -> None:
        """Start it in the session of this process."""
        await super().start_io(cmd, *args, **{**options, "start_new_session": False})


def measure() -> dict[str, Any]:
    """Milliseconds of keystrokes, in turns quiet and busy, and the CPU seconds that an idle server takes a minute.

    `each` is the 90th percentile of a busy keystroke to the quiet median of the same key. `others` are the cores that
    programs which are none of ours kept busy while it was quiet: beyond a tenth the figures say little.
    """
    (typed, others), idle = asyncio.run(_typed_in_turns()), asyncio.run(_idle())
    rows = {f"{kind}: {name}": figures for kind, name, figures in _rows(typed)}
    each = {"busy": percentile(list(_slower(typed["quiet"], typed["busy"])), 90)}
    show(f"with {BUSY} busy processes", HEADER, [[name, *each.values()] for name, each in rows.items()])
    found = {f"{name}, p90 to the same key's quiet p50": figure for name, figure in each.items()}
    found |= {"target": TARGET, "idle server, CPU seconds a minute": idle, "other programs, cores": others}
    show("the machine stays usable", ("figure", "value"), found.items())
    return {"keystrokes": rows, "each": each, "target": TARGET, "idle_cpu_seconds_per_minute": idle, "others": others}


def _rows(typed: Mapping[str, Sequence[BusyKeystroke]]) -> Iterator[tuple[str, str, dict[str, float]]]:
    kinds = {"all keys": (True, False), "known before": (False,), "by the model": (True,)}
    for kind, wanted in kinds.items():
        chosen = {name: [stroke for stroke in strokes if stroke.model in wanted] for name, strokes in typed.items()}
        quiet = percentile([stroke.round_trip for stroke in chosen["quiet"]], 50)
        for name, strokes in chosen.items():
            yield kind, name, _figures(strokes, quiet)


def _figures(strokes: Sequence[BusyKeystroke], quiet: float) -> dict[str, float]:
    round_trips, totals = [stroke.round_trip for stroke in strokes], [stroke.total for stroke in strokes]
    return {
        "keys": len(strokes),
        "p50": percentile(round_trips, 50),
        "p90": (p90 := percentile(round_trips, 90)),
        "p90_to_quiet_p50": p90 / quiet,
        "server_p50": percentile(totals, 50),
        "server_p90": percentile(totals, 90),
    }


def _slower(quiet: Sequence[BusyKeystroke], busy: Sequence[BusyKeystroke]) -> Iterator[float]:
    """How many times a key's quiet median each busy one takes; rounds follow each other."""
    keys = len(quiet) // ROUNDS
    for key in range(keys):
        usual = median(stroke.round_trip for stroke in quiet[key::keys])
        yield from (stroke.round_trip / usual for stroke in busy[key::keys])


async def _typed_in_turns() -> tuple[dict[str, list[BusyKeystroke]], float]:
    typed: dict[str, list[BusyKeystroke]] = {"quiet": [], "busy": []}
    others = list[float]()
    async with editor(SETTINGS, SharedSession) as headless:
        await _typed(headless, pace=0.0)
        for _ in range(ROUNDS):
            began = perf_counter(), others_seconds()
            typed["quiet"] += await _typed(headless)
            others.append((others_seconds() - began[1]) / (perf_counter() - began[0]))
            with _busy_processes():
                typed["busy"] += await _typed(headless)
    return typed, max(others)


@contextmanager
def _busy_processes() -> Generator[None]:
    with ExitStack() as stack:
        for _ in range(BUSY):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


async def _typed(headless: Editor, pace: float = KEY_SECONDS) -> list[BusyKeystroke]:
    """Type into a new document, a key every `pace` seconds, or once the last key is answered."""
    recorded, uri = part(demo_session(), 0, KEYS), f"file:///demo/busy{perf_counter()}.py"
    headless.open(uri, recorded.start, "python")
    await headless.settled()
    keys = type_keys(headless, uri, recorded.events, pace)
    strokes = [await _asked(headless, uri, cursor) async for cursor in keys]
    headless.close(uri)
    await headless.settled()
    return strokes


async def _asked(headless: Editor, uri: str, cursor: int) -> BusyKeystroke:
    began = perf_counter()
    await headless.suggestion(uri, cursor)
    round_trip = (perf_counter() - began) * 1e3
    costs = (await headless.stats())["last"]
    return BusyKeystroke(round_trip, costs["ms"]["total"], bool(costs["passes"] or costs["recomputed"]))


async def _idle() -> float:
    """CPU seconds a minute of a server that has answered and is left alone."""
    async with editor(SETTINGS) as headless:
        await _typed(headless, pace=0.0)
        before = children_seconds()
        await asyncio.sleep(IDLE_SECONDS)
        return (children_seconds() - before) / IDLE_SECONDS * 60


if __name__ == "__main__":
    measure()
