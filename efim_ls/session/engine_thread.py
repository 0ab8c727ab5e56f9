"""The one thread that touches tensors: jobs in order, the latest wins; while none waits, work nobody waits for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Generic, TypeVar

from efim_ls.session.time_budget import Allowance

T = TypeVar("T")
V = TypeVar("V")
Stopped = Callable[[], bool]
Job = Callable[[Stopped], T]

logger = logging.getLogger(__name__)


class Superseded(Exception):
    """A newer job with the same key took this one's place."""


class EngineThread:
    """Runs one job at a time on a daemon thread of its own. Its methods belong to the event loop's thread.

    `allowance` bounds the work ahead of need; nobody gave any until its `seconds` are set.
    """

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allowance = allowance or Allowance(0)
        self._latest: dict[Hashable, _Ticket[Any]] = {}  # all that is not answered; the event loop's alone
        # What follows is changed under this lock only. Its waits are the engine thread's.
        self._changed = threading.Condition()
        self._held: set[_Ticket[Any]] = set()  # asked for later, until they are answered
        self._queue: OrderedDict[Hashable, _Ticket[Any]] = OrderedDict()
        self._idle: OrderedDict[Hashable, _Idle] = OrderedDict()  # with the one under way
        self._settling: list[asyncio.Future[None]] = []
        self._closed = False
        self.allowance.watch(self._wake)
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def run(self, key: Hashable, job: Job[T], after: float = 0.0) -> asyncio.Future[T]:
        """Queue a job in place of an older one with its key, which is told to stop and answered `Superseded`.

        It is queued `after` so many seconds; the older one makes way at once. Cancelling the result tells the job to
        stop; one that has not begun then never does.
        """
        self.supersede(key)
        ticket = _Ticket(job)
        self._latest[key] = ticket
        ticket.waiter.add_done_callback(lambda _: self._leave(key, ticket))
        if after > 0:
            self._hold(key, ticket, after)
        else:
            self._enqueue(key, ticket)
        return ticket.waiter

    def is_asked(self, key: Hashable) -> bool:
        """Whether somebody waits for the job with this key."""
        return key in self._latest

    def supersede(self, key: Hashable) -> None:
        """Tell the job with this key to stop, if there is one; who waits for it gets `Superseded`."""
        if (older := self._latest.get(key)) is not None:
            self._leave(key, older)
            if not older.waiter.done():  # who has just given up need not hear of it
                older.fail(Superseded())
                older.waiter.exception()

    def ahead(self, key: Hashable, job: Job[bool]) -> None:
        """Queue work that nobody waits for, in place of older work with its key, which is told to stop.

        It is done while no job waits and the allowance lasts; else it is told to stop. One that returns false was
        interrupted and is called again when the thread is idle again; it keeps its progress itself.
        """
        self._queue_idle(key, _Idle(job, free=False))

    def behind(self, key: Hashable, job: Job[bool]) -> None:
        """The same for work that is quick, and done whatever the allowance is."""
        self._queue_idle(key, _Idle(job, free=True))

    def drop_ahead(self, key: Hashable) -> None:
        """Forget the work ahead of need with this key; if it is under way, it is told to stop."""
        with self._changed:
            self._idle.pop(key, None)

    def settled(self) -> asyncio.Future[None]:
        """Done once nothing is queued or under way, save for work ahead of need that waits for its allowance."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._closed:
                waiter.set_result(None)
            else:
                self._settling.append(waiter)
                self._changed.notify()
        return waiter

    def close(self, seconds: float) -> bool:
        """Tell all jobs to stop and the thread to end; false if it is still at work after so many seconds.

        For when nobody waits for answers any more: jobs that have not begun get none.
        """
        for ticket in self._latest.values():
            ticket.drop()
        with self._changed:
            self._closed = True
            self._idle.clear()
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _queue_idle(self, key: Hashable, work: _Idle) -> None:
        with self._changed:
            if not self._closed:
                self._idle.pop(key, None)
                self._idle[key] = work
                self._changed.notify()

    def _hold(self, key: Hashable, ticket: _Ticket[Any], seconds: float) -> None:
        with self._changed:
            self._held.add(ticket)
        timer = asyncio.get_running_loop().call_later(seconds, self._enqueue, key, ticket)
        ticket.waiter.add_done_callback(lambda _: timer.cancel())

    def _enqueue(self, key: Hashable, ticket: _Ticket[Any]) -> None:
        with self._changed:
            if self._latest.get(key) is ticket and not self._closed:
                self._queue[key] = ticket
                self._changed.notify()

    def _leave(self, key: Hashable, ticket: _Ticket[Any]) -> None:
        ticket.drop()
        if self._latest.get(key) is ticket:
            del self._latest[key]
        with self._changed:
            self._held.discard(ticket)
            if self._queue.get(key) is ticket:
                del self._queue[key]
            self._changed.notify()  # this may have been the last that was held

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        work = self._next()  # not kept in the loop above: a finished job must not outlive its answer
        if work is not None:
            work()
        return work is not None

    def _next(self) -> Callable[[], None] | None:
        """Wait for something to do and take it; None once the thread is to end."""
        with self._changed:
            while not self._closed:
                if self._queue:
                    return self._queue.popitem(last=False)[1].execute
                if idle := self._next_idle():
                    return partial(self._do_idle, *idle)
                if not self._held:
                    self._tell_settled()
                self._changed.wait(self.allowance.frees_in() if self._idle else None)
            self._tell_settled()
            return None

    def _next_idle(self) -> tuple[Hashable, _Idle] | None:
        """What is free first; then what was queued last: it is for the place the user looks at now."""
        free = next(((key, work) for key, work in self._idle.items() if work.free), None)
        if free or not self._idle or self.allowance.left() <= 0:
            return free
        return next(reversed(self._idle.items()))

    def _do_idle(self, key: Hashable, work: _Idle) -> None:
        try:
            with nullcontext() if work.free else self.allowance.spending():
                done = work.job(self._interruption(key, work))
        except BaseException as error:  # nobody else hears of it, and nothing a job raises ends the thread
            logger.error("work that nobody waits for failed", exc_info=error)
            done = True
        with self._changed:
            if done and self._idle.get(key) is work:
                del self._idle[key]

    def _interruption(self, key: Hashable, work: _Idle) -> Stopped:
        """Tell whether work that nobody waits for has to stop, without the lock; once true, it stays true."""
        interrupted = False

        def stopped() -> bool:
            nonlocal interrupted
            unwanted = self._idle.get(key) is not work  # superseded, dropped or closed
            too_dear = not work.free and self.allowance.left() <= 0
            interrupted = interrupted or unwanted or bool(self._queue) or too_dear
            return interrupted

        return stopped

    def _tell_settled(self) -> None:
        for waiter in self._settling:
            _post(waiter, _settle, waiter)
        self._settling.clear()


class _Idle:
    """Work that nobody waits for: an object of its own, since one job may be queued twice."""

    def __init__(self, job: Job[bool], free: bool) -> None:
        self.job, self.free = job, free


class _Ticket(Generic[T]):
    """One job and who waits for it. `waiter` is touched on the event loop's thread only."""

    def __init__(self, job: Job[T]) -> None:
        self._stop = threading.Event()
        self._job: Job[T] | None = job
        self.waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()

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
            _post(self.waiter, self.fail, error)
        else:
            _post(self.waiter, self._succeed, result)

    def fail(self, error: BaseException) -> None:
        """Answer with an error; one that nobody waits for is logged, save that the job made way."""
        if self.waiter.done():
            if not isinstance(error, Superseded):
                logger.error("a job that was given up failed", exc_info=error)
            return
        self.waiter.set_exception(error)

    def _succeed(self, result: T) -> None:
        if not self.waiter.done():
            self.waiter.set_result(result)


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _post(waiter: asyncio.Future[Any], deliver: Callable[[V], None], value: V) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        waiter.get_loop().call_soon_threadsafe(deliver, value)
