"""Time in tests: a clock that they move, and the one place that waits, with the one limit for what hangs.

What a test waits for tells that it has happened: an event, a future, the end of a thread or of a process. Only what
another program does (a file appears, a screen changes) has to be looked for again and again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

HANG = 600.0  # seconds after which a test fails rather than wait on: a training on a slow CPU takes minutes
QUIET = 3.0  # seconds to see that nothing happens: a busy machine may hide that something does, not the reverse
FIRST_LOOK, LAST_LOOK = 0.001, 0.05  # seconds between two looks, twice as long each time
T = TypeVar("T")


class Clock:
    """Seconds that pass when a test moves `now`."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def eventually(find: Callable[[], T], wrong: str | Callable[[], str]) -> T:
    """Return the first true value of `find`; if none comes, fail with what is wrong."""
    end, look = time.monotonic() + HANG, FIRST_LOOK
    while not (found := find()):
        assert time.monotonic() < end, f"{wrong if isinstance(wrong, str) else wrong()}, after {HANG:.0f} s"
        time.sleep(look)
        look = min(2 * look, LAST_LOOK)
    return found


def threads_end(name: str) -> None:
    """Wait until the threads of this name have ended."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(HANG)
            assert not thread.is_alive(), f"{name} goes on"


async def happened(event: threading.Event) -> None:
    """Wait for what another thread tells, while the event loop goes on."""
    assert await asyncio.to_thread(event.wait, HANG)


async def soon(awaitable: Awaitable[T]) -> T:
    """Return what comes of an awaitable; fail if nothing does."""
    async with asyncio.timeout(HANG):
        return await awaitable


async def loop_at_rest() -> None:
    """Let the event loop do all that is ready and all that follows from it, until it has to wait."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)  # timers that are due become ready
    while loop._ready:  # pyright: ignore[reportAttributeAccessIssue]
        await asyncio.sleep(0)
