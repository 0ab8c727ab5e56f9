"""Waits for users to pause: something is begun once nothing more was asked of a document for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Stillness:
    """One thing for each document, the latest in place of an older one. Used on the event loop only."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[str, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._still = asyncio.Event()
        self._still.set()

    def after(self, uri: str, begin: Callable[[], None]) -> None:
        """Call `begin` once nothing was asked of this for so long."""
        self.cancel(uri)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._begin, uri)
        self._waiting[uri] = timer, begin
        self._still.clear()

    def cancel(self, uri: str) -> None:
        """Never begin what waits for a document."""
        if (waiting := self._waiting.pop(uri, None)) is not None:
            waiting[0].cancel()
        if not self._waiting:
            self._still.set()

    def cancel_all(self) -> None:
        """Never begin what waits."""
        for uri in list(self._waiting):
            self.cancel(uri)

    def hurry(self) -> None:
        """Begin all that waits now."""
        for uri in list(self._waiting):
            self._begin(uri)

    async def reached(self) -> None:
        """Wait until nothing waits."""
        await self._still.wait()

    def _begin(self, uri: str) -> None:
        _, begin = self._waiting[uri]
        begin()
        self.cancel(uri)
