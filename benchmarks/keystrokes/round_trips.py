"""What a keystroke costs inside the model and outside, in the demo's session and in a long file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.keystrokes.demo_session import demo_session
from benchmarks.table import show
from editor_clients.headless.client import Editor, editor
from efim_lab.gate.replay.report import percentile, row_of, summary
from efim_lab.gate.replay.trace import Event, requests_after
from efim_ls.text.document import Change, Document
from model_runtime.shelves.excerpts.excerpts import PLACES

NAME = "typing_demo.py"
LINES = (1_000, 5_000, 20_000)  # of files whose copy in the server is measured
KEYSTROKES = 300
SURE: dict[str, object] = {"suggestions": "sure"}  # the one preset whose answers never wait for a pause in typing
EXCERPTS: dict[str, object] = {"other_files": "text"}


class RoundTrip(NamedTuple):
    """One request: milliseconds as the client sees them, the server's own account, and whether a character came."""

    round_trip: float
    costs: dict[str, Any]
    types: bool


def measure() -> dict[str, float]:
    """Type the demo's edit fast; the first request, which computes the whole window, is left out."""
    with TemporaryDirectory() as empty:
        strokes = asyncio.run(typed(Path(empty), SURE))[1:]
    with_excerpts = asyncio.run(typed(Path(__file__).parents[2] / "efim_ls", SURE | EXCERPTS))[1:]
    figures = summary("efim", [row_of(s.costs) for s in strokes])
    typing = summary("efim", [row_of(s.costs) for s in strokes if s.types and s.costs["frame"] == "kept"])
    step = figures["step_ms"]
    result = {
        "keystrokes": len(strokes),
        "outside_model_p95_ms": percentile([_outside(s.costs["ms"]) for s in strokes], 95),
        "outside_model_p95_ms_with_excerpts": percentile([_outside(s.costs["ms"]) for s in with_excerpts], 95),
        "context_tokens": max(sum(s.costs[part] for part in PLACES) for s in with_excerpts),
        "transport_p95_ms": percentile([s.round_trip - s.costs["ms"]["total"] for s in strokes], 95),
        "step_ms": step,
        "typed_through": figures["typed_through"],
        "known": figures["known"],
        "passes": figures["passes"],
        "tokens_per_pass": figures["tokens_per_pass"],
        "typing_recomputed_mean": typing["foreground"]["mean"],
        "typing_first_token_steps_p50": typing["ttft_ms"]["p50"] / step,
        "typing_first_token_steps_p95": typing["ttft_ms"]["p95"] / step,
        "total_p50_ms": figures["total_ms"]["p50"],
        "total_p95_ms": figures["total_ms"]["p95"],
    }
    show("the demo's session through the server", ("figure", "value"), result.items())
    return result


def _outside(ms: dict[str, float]) -> float:
    return ms["total"] - ms["prefill"] - ms["decode"]


async def typed(folder: Path, settings: dict[str, object]) -> list[RoundTrip]:
    """Type the demo's edit into a document of a folder, which is indexed before."""
    recorded, uri = demo_session(), (folder / NAME).as_uri()
    strokes: list[RoundTrip] = []
    async with editor({"persist": False, "shared": False, **settings}, folder=folder) as headless:
        headless.open(uri, recorded.start, "python")
        await headless.settled()
        for event in recorded.events:
            for patch in event.patches:
                headless.edit(uri, *patch)
            if (cursor := requests_after(event)) is not None:
                strokes.append(await _ask(headless, uri, event, cursor))
    return strokes


def milliseconds(settings: dict[str, object]) -> list[float]:
    """Type the demo's edit; return the milliseconds until each answer but the first, which computes the window."""
    with TemporaryDirectory() as empty:
        return [each.round_trip for each in asyncio.run(typed(Path(empty), SURE | settings))[1:]]


async def _ask(headless: Editor, uri: str, event: Event, cursor: int) -> RoundTrip:
    started = perf_counter()
    done = await headless.complete(uri, cursor)
    round_trip = (perf_counter() - started) * 1e3
    return RoundTrip(round_trip, done.costs, types=bool(event.patches[0].inserted))


def measure_text_mirror() -> list[dict[str, float]]:
    """Type in the middle of longer and longer files, with UTF-16 positions as VS Code sends them."""
    results = [{"lines": lines, "ms": _ms_per_keystroke(lines)} for lines in LINES]
    show("text mirror", ("lines", "ms a keystroke"), [r.values() for r in results])
    return results


def _ms_per_keystroke(lines: int) -> float:
    document = Document("file:///long.py", "python", "    total = compute(values)  # é\n" * lines)
    times: list[float] = []
    for n in range(KEYSTROKES):
        started = perf_counter()
        place = (lines // 2, 10 + n)
        document.apply(Change("x", place, place))
        document.offset(lines // 2, 11 + n, "utf-16")
        times.append((perf_counter() - started) * 1e3)
    return median(times)
