"""The demo's editing session as a trace, for benchmarks without another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from time import perf_counter

from editor_clients.headless.client import Editor
from editor_clients.headless.demo.typist import BACKSPACE, EDIT, FILE, KEY
from efim_lab.gate.replay.trace import REST, Event, Patch, Trace, requests_after

KEY_SECONDS = 0.2


def demo_session() -> Trace:
    """Return every key of the demo, five per second, with a rest before each new place; no suggestion is accepted."""
    start = text = FILE.read_text(encoding="utf-8")
    events: list[Event] = []
    time = 0.0
    for step in json.loads(EDIT.read_text(encoding="utf-8")):
        cursor = text.index(step["after"]) + len(step["after"])
        time += REST
        for key in KEY.findall(step["type"]):
            patch = Patch(cursor - 1, 1, "") if key == BACKSPACE else Patch(cursor, 0, key)
            text = text[: patch.at] + patch.inserted + text[patch.at + patch.deleted :]
            cursor = patch.at + len(patch.inserted)
            events.append(Event(time, [patch]))
            time += KEY_SECONDS
    return Trace(start, events)


async def type_keys(headless: Editor, uri: str, events: list[Event], pace: float) -> AsyncIterator[int]:
    """Type keys into an open document, one every `pace` seconds or once the one before is dealt with.

    Yield the cursor after each key at which an editor asks for a suggestion.
    """
    due = perf_counter()
    for event in events:
        await asyncio.sleep(due - perf_counter())
        due = max(due + pace, perf_counter())
        for patch in event.patches:
            headless.edit(uri, *patch)
        if (cursor := requests_after(event)) is not None:
            yield cursor
