"""The one thread that touches tensors: jobs in order, the latest wins, stopping is a question."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
V = TypeVar("V")
Stopped = Callable[[], bool]
Job = Callable[[Stopped], T]

logger = logging.getLogger(__name__)


class Superseded(Exception):
    """A newer job with the same key took this one's place."""


class EngineThread:
    """Runs one job at a time on a daemon thread of its own. Its methods belong to the event loop's thread."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Ticket[Any] | None] = SimpleQueue()
        self._latest: dict[Hashable, _Ticket[Any]] = {}
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def run(self, key: Hashable, job: Job[T]) -> asyncio.Future[T]:
        """Queue a job in place of an older one with its key, which is told to stop and answered `Superseded`.

        Cancelling the result tells the job to stop; one that has not begun then never does.
        """
        self.supersede(key)
        ticket = _Ticket(job)
        self._latest[key] = ticket
        ticket.waiter.add_done_callback(lambda _: self._leave(key, ticket))
        self._queue.put(ticket)
        return ticket.waiter

    def supersede(self, key: Hashable) -> None:
        """Tell the job with this key to stop, if there is one; who waits for it gets `Superseded`."""
        if (older := self._latest.pop(key, None)) is not None:
            older.drop()
            older.fail(Superseded())
            older.waiter.exception()  # one that is being cancelled just now need not hear of it

    def close(self, seconds: float) -> bool:
        """Tell all jobs to stop and the thread to end; false if it is still at work after so many seconds.

        For when nobody waits for answers any more: jobs that have not begun get none.
        """
        for ticket in self._latest.values():
            ticket.drop()
        self._queue.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _leave(self, key: Hashable, ticket: _Ticket[T]) -> None:
        ticket.drop()
        if self._latest.get(key) is ticket:
            del self._latest[key]

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        ticket = self._queue.get()  # not kept in the loop above: a finished job must not outlive its answer
        if ticket is not None:
            ticket.execute()
        return ticket is not None


class _Ticket(Generic[T]):
    """One job and who waits for it. `waiter` is touched on the event loop's thread only."""

    def __init__(self, job: Job[T]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._job: Job[T] | None = job
        self.waiter: asyncio.Future[T] = self._loop.create_future()

    def drop(self) -> None:
        """Stop the job or never begin it, and let go of what it holds."""
        self._stop.set()
        self._job = None

    def execute(self) -> None:
        """Do the job, on the engine thread, unless it was dropped."""
        job = self._job
        if job is None:
            return
        try:
            result = job(self._stop.is_set)
        except BaseException as error:  # whatever a job raises is its asker's, and never ends the thread
            self._post(self.fail, error)
        else:
            self._post(self._succeed, result)

    def fail(self, error: BaseException) -> None:
        """Answer with an error; one that nobody waits for is logged."""
        if self.waiter.done():
            logger.error("a job that was given up failed", exc_info=error)
            return
        self.waiter.set_exception(error)

    def _succeed(self, result: T) -> None:
        if not self.waiter.done():
            self.waiter.set_result(result)

    def _post(self, deliver: Callable[[V], None], value: V) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(deliver, value)
