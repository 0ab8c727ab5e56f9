"""`python -m benchmarks.keystrokes.both_models MODEL TRACE`: what keys wait for while a larger model answers, too.

Two servers are typed into in turns, a key every tenth of a second: one has the embedded model alone, the other has
MODEL as well. Each turn ends when neither computes any more. The last line is a JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from attrs import evolve
from lsprotocol import types

from benchmarks.keystrokes.demo_session import type_keys
from benchmarks.keystrokes.replays import SKIP
from benchmarks.table import show
from editor_clients.headless.client import Editor, editor
from editor_clients.headless.connection import Connection
from efim_lab.gate.replay import trace
from efim_lab.gate.replay.player import language_of
from efim_lab.gate.replay.report import percentile
from efim_lab.gate.replay.trace import Event, Trace

TURNS, KEYS = 12, 60  # keys of a turn; the first turn is not counted
KEY_SECONDS = 0.1
ALONE, BOTH = "the embedded model", "both models"
TARGET = 1.05  # of the 95th percentile
SETTINGS = {"persist": False, "shared": False}


class Improved(Connection):
    """A client that is notified of a surer suggestion, as VS Code is: no answer waits for it."""

    async def ask(self, method: str, params: object = None) -> Any:
        """Say so when the server starts."""
        if isinstance(params, types.InitializeParams):
            able = evolve(params.capabilities, experimental={"efimImprovedSuggestions": True})
            params = evolve(params, capabilities=able)
        return await super().ask(method, params)


def measure(model: str, recorded: Trace, name: str, turns: int = TURNS, keys: int = KEYS) -> dict[str, Any]:
    """Type a part of a trace in turns with one model and with both; `name` says its language, as rustcode.json does.

    Return the medians over turns of their percentiles in milliseconds, and the ratios of both models to one.
    """
    part = trace.part(recorded, min(SKIP, len(recorded.events) // 2), (turns + 1) * keys)
    found = asyncio.run(_typed_in_turns(model, part, name, keys))
    figures = {side: _figures(times[1:]) for side, times in found.items()}
    ratios = {rank: ms / figures[ALONE][rank] for rank, ms in figures[BOTH].items()}
    show(
        f"milliseconds that a key waits for, {name}",
        ("", *ratios),
        [(side, *each.values()) for side, each in figures.items()] + [("ratio", *ratios.values())],
    )
    return {"ms": figures, "ratio": ratios, "target": TARGET, "keys": sum(map(len, found[BOTH][1:]))}


def _figures(turns: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return the medians over turns, so that a program that ran during one of them counts little."""
    return {f"p{rank}": median(percentile(list(each), rank) for each in turns) for rank in (50, 95)}


async def _typed_in_turns(model: str, recorded: Trace, name: str, keys: int) -> Mapping[str, list[list[float]]]:
    uri, times = f"file:///trace/{name}", dict[str, list[list[float]]]()
    async with editor(SETTINGS, Improved) as alone, editor({**SETTINGS, "model": model}, Improved) as both:
        sides = {ALONE: alone, BOTH: both}
        for headless in sides.values():
            headless.open(uri, recorded.start, language_of(name))
            await headless.settled()
        for start in range(0, len(recorded.events), keys):
            for side, headless in sides.items():
                turn = _waits(headless, uri, recorded.events[start : start + keys])
                times.setdefault(side, []).append([ms async for ms in turn])
                await headless.settled()
    return times


async def _waits(headless: Editor, uri: str, events: list[Event]) -> AsyncIterator[float]:
    """Type, and yield how long each answer takes, in milliseconds."""
    async for cursor in type_keys(headless, uri, events, KEY_SECONDS):
        began = perf_counter()
        await headless.suggestion(uri, cursor)
        yield (perf_counter() - began) * 1e3


if __name__ == "__main__":
    path = Path(sys.argv[2])
    print(json.dumps(measure(sys.argv[1], trace.read(path), path.name)))
