"""Begins something once the user has paused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Calls one thing after a pause; a later `start` takes its place. Used on the event loop only."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._begin: Callable[[], None] | None = None
        self._elapsed = asyncio.Event()

    @property
    def waiting(self) -> bool:
        """Whether something is still to be called."""
        return self._begin is not None

    def start(self, seconds: float, begin: Callable[[], None]) -> None:
        """Call `begin` once this was not called again for `seconds`."""
        self.cancel()
        self._begin = begin
        self._timer = asyncio.get_running_loop().call_later(seconds, self.fire)
        self._elapsed.clear()

    def cancel(self) -> None:
        """Drop what waits."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._begin = None
        self._elapsed.set()

    def fire(self) -> None:
        """Call what waits now."""
        begin = self._begin
        self.cancel()
        if begin is not None:
            begin()

    async def elapsed(self) -> None:
        """Wait until nothing waits."""
        if self.waiting:
            await self._elapsed.wait()
