"""A limit on background work, in seconds per minute."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import floor
from time import monotonic

WINDOW = 60.0  # seconds for which spent time counts against further work
# Work that ended within one grain is given back together: there are few entries for many pieces of work, and a worker
# with an exhausted budget is not woken for a microsecond.
GRAIN = 1.0  # seconds


class IdleBudget:
    """Limits work to `seconds` in any minute, including work under way.

    `seconds` may be set at any time on any thread; zero forbids work. All else is used by the working thread only.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        """Allow `seconds` of work per minute; `clock` is monotonic, in seconds."""
        self.seconds, self._clock = seconds, clock
        self._allowed: dict[object, float] = {None: seconds}
        self._spent: dict[int, float] = {}  # seconds of work by the grain in which it ended, oldest first
        self._began: float | None = None
        self._wake: Callable[[], None] = lambda: None

    def allow(self, seconds: float, client: object = None) -> None:
        """Set the seconds of work in any minute that a client allows, on any thread; zero forbids work.

        Clients share one machine: together they get what the most generous of them allows.
        """
        self._allowed.pop(client, None)
        if seconds > 0:
            self._allowed[client] = seconds
        self.seconds = max(self._allowed.values(), default=0.0)
        self._wake()

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever `seconds` is set, on the thread that sets it."""
        self._wake = wake

    @contextmanager
    def spending(self) -> Generator[None]:
        """Count the time spent inside; it may overdraw, so a worker checks `left` whenever it can stop."""
        began = self._began = self._clock()
        try:
            yield
        finally:
            now, self._began = self._clock(), None
            grain = floor(now / GRAIN)
            self._spent[grain] = self._spent.get(grain, 0.0) + now - began

    def left(self) -> float:
        """Return the seconds that may be spent now, zero or less if none."""
        now = self._clock()
        while self._spent and self._given_back_at() <= now:
            del self._spent[next(iter(self._spent))]
        under_way = 0.0 if self._began is None else now - self._began
        return self.seconds - sum(self._spent.values()) - under_way

    def frees_in(self) -> float | None:
        """Return the seconds until spent time is given back; None if waiting does not help."""
        if self.seconds <= 0 or not self._spent:
            return None
        return self._given_back_at() - self._clock()

    def _given_back_at(self) -> float:
        return (next(iter(self._spent)) + 1) * GRAIN + WINDOW
