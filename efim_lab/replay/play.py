"""Replays a recorded editing session through the real server, one didChange and one request a keystroke."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rich.console import Console
from rich.progress import track

from editor_clients.headless.client import Editor, editor
from editor_clients.headless.connection import ServerError
from efim_lab.replay import trace
from efim_lab.replay.report import Row, row_of
from efim_lab.replay.trace import Event, Trace

LANGUAGES = ("go", "java", "javascript", "python", "ruby", "rust", "typescript")
# Answers that cost and count nothing.
UNASKED = (
    "disabled", "workspace off", "file off", "secret file", "file too large", "loading", "no model", "error",
)  # fmt: skip
# The recording's rests take no time here: what an allowance spreads over minutes must be done at once. And what it
# costs must not depend on what was kept of the last replay, nor on what a recording of no known language is called.
MEASURED: dict[str, object] = {"ahead_seconds_per_minute": 60, "persist": False, "disabled_languages": []}


def run(recorded: Trace, name: str, settings: Mapping[str, object]) -> list[Row]:
    """Return a row for every request of a trace; a `name` such as rustcode.json tells the language.

    Where the recording shows that the cursor rested, all work ahead of need is done before the next edit.
    """
    return asyncio.run(_replay(recorded, name.partition(".")[0], settings))


async def _replay(recorded: Trace, name: str, settings: Mapping[str, object]) -> list[Row]:
    console = Console(stderr=True)
    language = next((known for known in LANGUAGES if name.startswith(known)), "plaintext")
    async with editor({**settings, **MEASURED}) as headless:
        player = Player(headless, f"file:///trace/{name}")
        headless.open(player.uri, recorded.start, language)
        for event in track(recorded.events, "replaying", console=console, disable=not console.is_terminal):
            await player.play(event)
    return player.rows


class Player:
    """Makes one event after the other happen in an open document, and keeps a row for every request."""

    def __init__(self, headless: Editor, uri: str) -> None:
        self.uri = uri
        self.rows: list[Row] = []
        self._headless = headless
        self._last: Event | None = None
        self._ahead = 0

    async def play(self, event: Event) -> None:
        """Rest where the recording does, edit, and ask where an editor would."""
        await self._rest(trace.rested_at(event, self._last))
        self._last = event
        for at, deleted, inserted in event.patches:
            self._headless.edit(self.uri, at, deleted, inserted)
        cursor = trace.requests_after(event)
        if cursor is not None:
            self.rows.append(await self._ask(cursor))

    async def _rest(self, at: int | None) -> None:
        if at is not None:
            self._headless.move(self.uri, at)
            await self._headless.settled()

    async def _ask(self, cursor: int) -> Row:
        completion = await self._headless.complete(self.uri, cursor)
        if completion.reason in UNASKED:
            raise ServerError(f"a keystroke was not completed: {completion.reason}")
        before, self._ahead = self._ahead, completion.ahead["tokens"]
        return row_of(completion.costs, self._ahead - before, completion.ahead["wasted"])
