"""The demo's editing session as a trace, for benchmarks without another."""

from __future__ import annotations

import json

from editor_clients.headless.demo.typist import BACKSPACE, EDIT, FILE, KEY
from efim_lab.replay.trace import REST, Event, Patch, Trace

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
