"""Replays a recorded editing session through the real server, one didChange and one request a keystroke."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import track

from editor_clients.headless import trace
from editor_clients.headless.client import Editor, editor
from editor_clients.headless.connection import ServerError
from editor_clients.headless.report import Row
from editor_clients.headless.trace import Event, Trace

LANGUAGES = ("go", "java", "javascript", "python", "ruby", "rust", "typescript")
UNASKED = ("disabled", "error", "file too large", "loading", "no model")  # answers that cost and count nothing
BEFORE_FIRST_TOKEN = ("plan", "tokenize", "restore", "prefill")


def run(recorded: Trace, name: str, settings: Mapping[str, object]) -> list[Row]:
    """Return a row for every request of a trace; a `name` such as rustcode.json tells the language."""
    return asyncio.run(_replay(recorded, name.partition(".")[0], settings))


async def _replay(recorded: Trace, name: str, settings: Mapping[str, object]) -> list[Row]:
    console = Console(stderr=True)
    uri = f"file:///trace/{name}"
    language = next((known for known in LANGUAGES if name.startswith(known)), "plaintext")
    rows: list[Row] = []
    async with editor(settings) as headless:
        headless.open(uri, recorded.start, language)
        for event in track(recorded.events, "replaying", console=console, disable=not console.is_terminal):
            rows.extend(await _play(headless, uri, event))
    return rows


async def _play(headless: Editor, uri: str, event: Event) -> list[Row]:
    for at, deleted, inserted in event.patches:
        headless.edit(uri, at, deleted, inserted)
    cursor = trace.requests_after(event)
    if cursor is None:
        return []
    completion = await headless.complete(uri, cursor)
    if completion.reason in UNASKED:
        raise ServerError(f"a keystroke was not completed: {completion.reason}")
    return [_row(completion.costs)]


def _row(costs: Mapping[str, Any]) -> Row:
    ms = costs["ms"]
    return Row(
        prompt_tokens=costs["reused"] + costs["recomputed"],
        recomputed=costs["recomputed"],
        background=False,
        reanchored=costs["frame"] == "new",
        ttft_ms=sum(ms[stage] for stage in BEFORE_FIRST_TOKEN),
        total_ms=ms["total"],
    )
