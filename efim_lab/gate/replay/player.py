"""Replays a recorded editing session through the real server, one didChange and one request a keystroke."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter

from rich.console import Console
from rich.progress import track

from editor_clients.headless.client import Editor, editor
from editor_clients.headless.connection import ServerError
from efim_lab.gate.replay import trace
from efim_lab.gate.replay.report import KeystrokeRow, row_of
from efim_lab.gate.replay.trace import Event, Trace

TRACE_LANGUAGES = ("go", "java", "javascript", "python", "ruby", "rust", "typescript")
# Reasons of answers that the model was not asked for: they would count as free.
UNASKED = (
    "disabled", "file off", "secret file", "file too large", "loading", "no model", "error",
)  # fmt: skip
# A replay skips the recording's pauses, so prefetching needs all of its time budget at once; the report says how much
# it took in the worst minute of the recording, to compare with a server's budget. Costs must depend neither on an
# earlier replay's blocks on disk or in a shared server, nor on the language that the trace's name suggests: the model
# is asked in all languages.
REPLAY_SETTINGS: dict[str, object] = {
    "prefetch_seconds_per_minute": 60,
    "persist": False,
    "shared": False,
    "disabled_languages": [],
    "model_languages": ["*"],
}


def replay(recorded: Trace, name: str, settings: Mapping[str, object]) -> list[KeystrokeRow]:
    """Return a row for every request of a trace; the language is taken from a `name` such as rustcode.json.

    Where the recording shows that the cursor rested, all prefetching is finished before the next edit.
    """
    return asyncio.run(_replay(recorded, name.partition(".")[0], settings))


def language_of(name: str) -> str:
    """Return the language that a trace's name begins with."""
    return next((known for known in TRACE_LANGUAGES if name.startswith(known)), "plaintext")


async def _replay(recorded: Trace, name: str, settings: Mapping[str, object]) -> list[KeystrokeRow]:
    console, language = Console(stderr=True), language_of(name)
    async with editor({**settings, **REPLAY_SETTINGS}) as headless:
        player = Player(headless, f"file:///trace/{name}")
        headless.open(player.uri, recorded.start, language)
        for event in track(recorded.events, "replaying", console=console, disable=not console.is_terminal):
            await player.play(event)
    return player.rows


class Player:
    """Plays one event after the other in an open document and collects a row for every request."""

    def __init__(self, headless: Editor, uri: str) -> None:
        self.uri = uri
        self.rows: list[KeystrokeRow] = []
        self._headless = headless
        self._last: Event | None = None
        self._ahead = 0

    async def play(self, event: Event) -> None:
        """Pause where the recording does, edit, and request a completion where an editor would."""
        began = perf_counter()
        await self._rest(trace.rested_at(event, self._last))
        ahead_seconds = perf_counter() - began
        self._last = event
        for at, deleted, inserted in event.patches:
            self._headless.edit(self.uri, at, deleted, inserted)
        cursor = trace.requests_after(event)
        if cursor is not None:
            row = await self._ask(cursor)
            self.rows.append(row._replace(time=event.time, ahead_seconds=ahead_seconds))

    async def _rest(self, at: int | None) -> None:
        if at is not None:
            self._headless.move(self.uri, at)
            await self._headless.settled()

    async def _ask(self, cursor: int) -> KeystrokeRow:
        completion = await self._headless.complete(self.uri, cursor)
        if completion.reason in UNASKED:
            raise ServerError(f"a keystroke was not completed: {completion.reason}")
        before, self._ahead = self._ahead, completion.ahead["tokens"]
        return row_of(completion.costs, self._ahead - before, completion.ahead["wasted"])
