"""The demo's session through the real server: what a keystroke costs, inside the model and outside."""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.session import demo_session
from benchmarks.table import show
from editor_clients.headless.client import editor
from editor_clients.headless.report import percentile
from editor_clients.headless.trace import Event, requests_after

URI = "file:///demo/typing.py"


class Keystroke(NamedTuple):
    """One request: milliseconds as the client sees them, the server's own account, and whether a character came."""

    round_trip: float
    costs: dict[str, Any]
    types: bool


def measure() -> dict[str, float]:
    """Type the demo's edit without pauses; the first request, which computes the whole window, is left out."""
    strokes = asyncio.run(_typed())[1:]
    outside = [s.costs["ms"]["total"] - s.costs["ms"]["prefill"] - s.costs["ms"]["decode"] for s in strokes]
    transport = [s.round_trip - s.costs["ms"]["total"] for s in strokes]
    kept = [s for s in strokes if s.types and s.costs["frame"] == "kept"]
    step = median(_step(s) for s in strokes if s.costs["new_tokens"] > 1)
    result = {
        "keystrokes": len(strokes),
        "outside_model_p95_ms": percentile(outside, 95),
        "transport_p95_ms": percentile(transport, 95),
        "step_ms": step,
        "typing_recomputed_mean": sum(s.costs["recomputed"] for s in kept) / len(kept),
        "typing_first_token_steps_p50": median(s.costs["ms"]["prefill"] for s in kept) / step,
        "typing_first_token_steps_mean": sum(s.costs["ms"]["prefill"] for s in kept) / len(kept) / step,
        "total_p50_ms": median(s.costs["ms"]["total"] for s in strokes),
        "total_p95_ms": percentile([s.costs["ms"]["total"] for s in strokes], 95),
    }
    show("the demo's session through the server", ("figure", "value"), result.items())
    return result


def _step(stroke: Keystroke) -> float:
    """Milliseconds of one decode step: the first new token needs none."""
    return stroke.costs["ms"]["decode"] / (stroke.costs["new_tokens"] - 1)


async def _typed() -> list[Keystroke]:
    recorded = demo_session()
    strokes: list[Keystroke] = []
    async with editor({}) as headless:
        headless.open(URI, recorded.start, "python")
        for event in recorded.events:
            for patch in event.patches:
                headless.edit(URI, *patch)
            if (cursor := requests_after(event)) is not None:
                strokes.append(await _ask(headless, event, cursor))
    return strokes


async def _ask(headless: Any, event: Event, cursor: int) -> Keystroke:
    started = perf_counter()
    done = await headless.complete(URI, cursor)
    round_trip = (perf_counter() - started) * 1e3
    return Keystroke(round_trip, done.costs, types=bool(event.patches[0].inserted))
