"""The thread of all models but larger ones: runs jobs in order, the latest per key wins, and idle work in between."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext, suppress
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Generic, Literal, TypeVar

from efim_ls.completion.idle_budget import IdleBudget
from model_runtime.cancel import Cancel, Cancelled

T = TypeVar("T")
V = TypeVar("V")
Job = Callable[[Cancel], T]

logger = logging.getLogger(__name__)


class Turn(Cancel):
    """Tells a job to stop, for good or because its turn is over and it resumes behind the jobs of others."""

    def __init__(
        self, is_dropped: Callable[[], bool], others_wait: Callable[[], bool], is_over: Callable[[], bool]
    ) -> None:
        """End the turn once it `is_over` and others wait."""
        super().__init__(is_dropped)
        self.resumes = False
        self._others_wait, self._is_over = others_wait, is_over

    def __call__(self) -> bool:
        """Return whether the job has to stop."""
        self.resumes = self.resumes or (self._others_wait() and self._is_over())
        return self.resumes or super().__call__()


class EngineThread:
    """Runs one job at a time on a daemon thread. Its methods belong to the event loop's thread.

    `idle_budget` limits budgeted idle work; without a budget, none of it runs. `clock` is monotonic, in seconds.
    """

    def __init__(self, idle_budget: IdleBudget | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.idle_budget, self.clock = idle_budget or IdleBudget(0), clock
        self.typed_at = -inf  # when a user last did something, by `clock`; read on any thread
        # What follows is changed under this lock only. Its waits are the engine thread's.
        self._changed = threading.Condition()
        self._tickets: dict[Hashable, _Ticket[Any]] = {}  # all unanswered ones, in the order they became ready
        self._ready = Counter[object]()  # how many of these wait for the thread, by client
        self._idle: OrderedDict[Hashable, _IdleWork] = OrderedDict()  # including running work
        self._settling: list[asyncio.Future[None]] = []
        self._closed = False
        self.idle_budget.watch(self._wake)
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def run(
        self, key: Hashable, job: Job[T], after: float = 0.0, client: object = None, turn: float = inf
    ) -> asyncio.Future[T]:
        """Queue a job that supersedes an older one with its key, which is stopped and gets `Cancelled`.

        The older one is superseded at once; this one is queued after `after` seconds. Cancelling the result stops
        the job; a job that has not started never runs. After `turn` seconds the job is stopped if others wait;
        it raises `Cancelled`, and is called again for twice as long.
        """
        self.supersede(key)
        ticket = _Ticket(job, client, turn, self.clock)
        with self._changed:
            self._tickets[key] = ticket
        ticket.waiter.add_done_callback(lambda _: self._remove(key, ticket))
        if after > 0:
            timer = asyncio.get_running_loop().call_later(after, self._enqueue, key, ticket)
            ticket.waiter.add_done_callback(lambda _: timer.cancel())
        else:
            self._enqueue(key, ticket)
        return ticket.waiter

    def is_pending(self, key: Hashable) -> bool:
        """Return whether a job with this key is unanswered."""
        return key in self._tickets

    def supersede(self, key: Hashable) -> None:
        """Tell the job with this key, if there is one, to stop; its caller gets `Cancelled`."""
        if (older := self._tickets.get(key)) is not None:
            self._remove(key, older)
            if not older.waiter.done():  # a caller that has just cancelled is not informed
                older.fail(Cancelled())
                older.waiter.exception()

    def run_idle(self, key: Hashable, job: Job[bool], budgeted: bool = True, client: object = None) -> None:
        """Queue idle work that replaces older idle work with its key, which is stopped.

        It runs while no job waits and, if `budgeted`, while the idle budget lasts; otherwise it is stopped. If
        it returns false, it was interrupted and is called again once the thread is idle; it keeps its own progress.
        """
        with self._changed:
            if not self._closed:
                self._idle.pop(key, None)
                self._idle[key] = _IdleWork(job, budgeted, client)
                self._changed.notify()

    def drop_idle(self, key: Hashable) -> None:
        """Drop the idle work with this key; if it is running, it is stopped."""
        with self._changed:
            self._idle.pop(key, None)

    def drop_client(self, client: object) -> None:
        """Drop all of a client's jobs and idle work; running ones are stopped, and callers get `Cancelled`."""
        with self._changed:
            asked = [key for key, ticket in self._tickets.items() if ticket.client is client]
            for key in [key for key, work in self._idle.items() if work.client is client]:
                del self._idle[key]
        for key in asked:
            self.supersede(key)

    def settled(self) -> asyncio.Future[None]:
        """Return a future that is done once nothing is queued or running, except work waiting for the idle budget."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._closed:
                waiter.set_result(None)
            else:
                self._settling.append(waiter)
                self._changed.notify()
        return waiter

    def close(self, seconds: float) -> bool:
        """Tell all jobs and the thread to end; return whether it has within `seconds`.

        To be called after the event loop has ended: jobs that have not started are not answered.
        """
        with self._changed:
            for ticket in self._tickets.values():
                ticket.drop()
            self._closed = True
            self._idle.clear()
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _enqueue(self, key: Hashable, ticket: _Ticket[Any]) -> None:
        with self._changed:
            if self._tickets.get(key) is ticket and not self._closed:
                self._tickets[key] = self._tickets.pop(key)  # behind those that became ready earlier
                ticket.state = "ready"
                self._ready[ticket.client] += 1
                self._changed.notify()

    def _remove(self, key: Hashable, ticket: _Ticket[Any]) -> None:
        ticket.drop()
        with self._changed:
            if self._tickets.get(key) is ticket:
                del self._tickets[key]
            if ticket.state == "ready":
                self._ready[ticket.client] -= 1
                self._ready += Counter()  # clients that have nothing ready are left out
            ticket.state = "over"
            self._changed.notify()  # this may have been the last held ticket

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
        """Wait for work and take it; return None when the thread should end."""
        with self._changed:
            while not self._closed:
                if self._ready:
                    return partial(self._execute, *self._take())
                if idle := self._next_idle():
                    return partial(self._do_idle, *idle)
                if all(ticket.state != "held" for ticket in self._tickets.values()):
                    self._tell_settled()
                self._changed.wait(self.idle_budget.frees_in() if self._idle else None)
            self._tell_settled()
            return None

    def _take(self) -> tuple[Hashable, _Ticket[Any]]:
        key, ticket = next(each for each in self._tickets.items() if each[1].state == "ready")
        ticket.state = "running"
        self._ready[ticket.client] -= 1
        self._ready += Counter()
        return key, ticket

    def _execute(self, key: Hashable, ticket: _Ticket[Any]) -> None:
        if not ticket.execute(lambda: any(client is not ticket.client for client in tuple(self._ready))):
            self._enqueue(key, ticket)

    def _next_idle(self) -> tuple[Hashable, _IdleWork] | None:
        """Return unbudgeted work first, then the latest queued, which is for the place the user looks at now."""
        free = next(((key, work) for key, work in self._idle.items() if not work.budgeted), None)
        if free or not self._idle or self.idle_budget.left() <= 0:
            return free
        return next(reversed(self._idle.items()))

    def _do_idle(self, key: Hashable, work: _IdleWork) -> None:
        try:
            with self.idle_budget.spending() if work.budgeted else nullcontext():
                done = work.job(self._interruption(key, work))
        except BaseException as error:  # there is no caller to raise it to, and the thread must survive
            logger.error("idle work failed", exc_info=error)
            done = True
        with self._changed:
            if done and self._idle.get(key) is work:
                del self._idle[key]

    def _interruption(self, key: Hashable, work: _IdleWork) -> Cancel:
        """Return what tells idle work to stop, without taking the lock."""
        interrupted = False

        def is_interrupted() -> bool:
            nonlocal interrupted
            unwanted = self._idle.get(key) is not work  # superseded, dropped or closed
            over_budget = work.budgeted and self.idle_budget.left() <= 0
            interrupted = interrupted or unwanted or bool(self._ready) or over_budget
            return interrupted

        return Cancel(is_interrupted)

    def _tell_settled(self) -> None:
        for waiter in self._settling:
            _post(waiter, partial(_settle, waiter), None)
        self._settling.clear()


class EngineClient:
    """The engine thread as one client sees it: keys are the client's own. Used on the event loop only.

    `idle_seconds` of budgeted idle work in any minute are what this client allows.
    """

    def __init__(self, thread: EngineThread) -> None:
        self.idle_seconds = 0.0
        self._thread = thread

    def note_typing(self) -> None:
        """Note that the user has just done something: work on other threads waits for a pause."""
        self._thread.typed_at = self._thread.clock()

    def is_typing(self, pause: float) -> bool:
        """Return whether any client's user did something within the last `pause` seconds; on any thread."""
        return self._thread.clock() - self._thread.typed_at < pause

    def allow(self, seconds: float) -> None:
        """Set the seconds of budgeted idle work in any minute; zero forbids it."""
        self.idle_seconds = max(0.0, seconds)
        self._thread.idle_budget.allow(seconds, self)

    def run(self, key: Hashable, job: Job[T], after: float = 0.0, turn: float = inf) -> asyncio.Future[T]:
        """Queue a job that supersedes an older one with its key; see `EngineThread.run`."""
        return self._thread.run((self, key), job, after, client=self, turn=turn)

    def is_pending(self, key: Hashable) -> bool:
        """Return whether a job with this key is unanswered."""
        return self._thread.is_pending((self, key))

    def supersede(self, key: Hashable) -> None:
        """Tell the job with this key, if there is one, to stop; its caller gets `Cancelled`."""
        self._thread.supersede((self, key))

    def run_idle(self, key: Hashable, job: Job[bool], budgeted: bool = True) -> None:
        """Queue idle work that replaces older idle work with its key; see `EngineThread.run_idle`."""
        self._thread.run_idle((self, key), job, budgeted, client=self)

    def drop_idle(self, key: Hashable) -> None:
        """Drop the idle work with this key; if it is running, it is stopped."""
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


class _IdleWork:
    """Work that no caller waits for; compared by identity, since one job may be queued twice."""

    def __init__(self, job: Job[bool], budgeted: bool, client: object) -> None:
        self.job, self.budgeted, self.client = job, budgeted, client


class _Ticket(Generic[T]):
    """A client's job and its caller's future, `waiter`, which is used on the event loop's thread only."""

    def __init__(self, job: Job[T], client: object, turn: float, clock: Callable[[], float]) -> None:
        self.client = client
        self.state: Literal["held", "ready", "running", "over"] = "held"
        self._turn, self._clock = turn, clock
        self._stop = threading.Event()
        self._job: Job[T] | None = job
        self.waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def drop(self) -> None:
        """Stop the job, or keep it from starting, and release its resources."""
        self._stop.set()
        self._job = None

    def execute(self, others_wait: Callable[[], bool]) -> bool:
        """Run the job, on the engine thread, unless it was dropped; return whether it is over."""
        job = self._job
        if job is None:
            return True
        end = self._clock() + self._turn
        turn = Turn(self._stop.is_set, others_wait, lambda: self._clock() > end)
        try:
            result = job(turn)
        except BaseException as error:  # raised to the caller; the thread must survive
            if isinstance(error, Cancelled) and turn.resumes:
                self._turn *= 2  # so that it ends even if each turn finds the work of the last one lost
                return False
            _post(self.waiter, self.fail, error)
        else:
            _post(self.waiter, partial(_settle, self.waiter), result)
        return True

    def fail(self, error: BaseException) -> None:
        """Answer with an error; if the caller has cancelled, log it, unless the job was superseded."""
        if self.waiter.done():
            if not isinstance(error, Cancelled):
                logger.error("a cancelled job failed", exc_info=error)
            return
        self.waiter.set_exception(error)


def _settle(waiter: asyncio.Future[T], result: T) -> None:
    if not waiter.done():
        waiter.set_result(result)


def _post(waiter: asyncio.Future[Any], deliver: Callable[[V], None], value: V) -> None:
    with suppress(RuntimeError):  # the loop is closed, so no caller waits
        waiter.get_loop().call_soon_threadsafe(deliver, value)
