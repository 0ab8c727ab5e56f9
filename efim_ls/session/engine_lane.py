"""One client's part of the engine thread: its jobs, its idle work, and how much of that it allows."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from math import inf
from time import monotonic
from typing import TypeVar

from efim_ls.session.engine_thread import EngineThread, Job

T = TypeVar("T")


class EngineLane:
    """The engine thread as one client sees it: keys are the client's own. Used on the event loop only."""

    def __init__(self, thread: EngineThread) -> None:
        self._thread = thread

    @property
    def idle_seconds(self) -> float:
        """Seconds of budgeted idle work in any minute that this client allows."""
        return self._thread.idle_budget.allowed(self)

    def note_typing(self) -> None:
        """Note that the user has just done something: work beside the engine thread waits for a pause."""
        self._thread.typed_at = monotonic()

    def is_typing(self, pause: float) -> bool:
        """Return whether any client's user did something within the last `pause` seconds; on any thread."""
        return monotonic() - self._thread.typed_at < pause

    def allow(self, seconds: float) -> None:
        """Set the seconds of budgeted idle work in any minute; zero forbids it."""
        self._thread.idle_budget.allow(seconds, self)

    def run(self, key: Hashable, job: Job[T], after: float = 0.0, turn: float = inf) -> asyncio.Future[T]:
        """Queue a job that supersedes an older one with its key; see `EngineThread.run`."""
        return self._thread.run((self, key), job, after, client=self, turn=turn)

    def is_asked(self, key: Hashable) -> bool:
        """Return whether a job with this key is unanswered."""
        return self._thread.is_asked((self, key))

    def supersede(self, key: Hashable) -> None:
        """Tell the job with this key, if there is one, to stop; its caller gets `Cancelled`."""
        self._thread.supersede((self, key))

    def run_idle(self, key: Hashable, job: Job[bool], budgeted: bool = True) -> None:
        """Queue idle work that replaces older idle work with its key; see `EngineThread.run_idle`."""
        self._thread.run_idle((self, key), job, budgeted, client=self)

    def drop_idle(self, key: Hashable) -> None:
        """Drop the idle work with this key; if it is running, it is told to stop."""
        self._thread.drop_idle((self, key))

    def settled(self) -> asyncio.Future[None]:
        """Return a future that is done once nothing of any client is queued or running."""
        return self._thread.settled()

    def leave(self) -> None:
        """Drop all of the client's work, and allow no more that is idle."""
        self.allow(0)
        self._thread.drop_client(self)

    def close(self, seconds: float) -> bool:
        """End the thread itself, whose only client this is; see `EngineThread.close`."""
        return self._thread.close(seconds)
