"""When work ahead of need is begun: after an answer, and where a cursor rests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from efim_ls.request import Request
from efim_ls.session.engine_thread import EngineThread, Job
from efim_ls.session.stillness import Stillness
from efim_ls.text.lines import line_end_in

STILL = 0.1  # seconds: a key that is held down moves the cursor many times in that time


class Foresight:
    """The work ahead of need of each document, the latest in place of an older one. Used on the event loop only."""

    def __init__(self, engine: EngineThread) -> None:
        self._engine, self._stillness = engine, Stillness(STILL)

    def begin(self, uri: str, job: Job[bool]) -> None:
        """Have work done as soon as nobody waits for other; none is kept while none is allowed."""
        self._stillness.cancel(uri)
        if self._engine.allowance.seconds > 0:
            self._engine.ahead(uri, job)

    def when_still(self, uri: str, begin: Callable[[], None]) -> None:
        """Call `begin` once nothing was asked of this for a moment."""
        self._stillness.after(uri, begin)

    def drop(self, uri: str) -> None:
        """Forget the work of a document."""
        self._stillness.cancel(uri)
        self._engine.drop_ahead(uri)

    async def settled(self) -> None:
        """Wait until nothing is queued, to be queued or under way, save for what waits for its allowance."""
        await self._stillness.reached()
        await self._engine.settled()


def accepted(request: Request, suggested: str) -> Request:
    """What would be asked next if the suggestion were accepted."""
    inserted = suggested.replace("\n", line_end_in(request.text))
    before, after = request.text[: request.cursor] + inserted, request.text[request.cursor :]
    return replace(request, text=before + after, cursor=len(before))
