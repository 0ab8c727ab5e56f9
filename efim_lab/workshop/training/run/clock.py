"""Measures how long a process computes, and lets it finish a step before a signal ends it."""

import signal
import time
from types import FrameType, TracebackType


class ComputingClock:
    """Counts seconds of computing: wall-clock time without that in which the process was stopped or waited.

    With several threads, processor time passes faster than the clock on the wall: the slower of the two counts.
    """

    def __init__(self) -> None:
        self._wall, self._processor, self._total = time.monotonic(), time.process_time(), 0.0

    def __call__(self) -> float:
        """Return the seconds of computing since the clock was made; call it at least once a step."""
        wall, processor = time.monotonic(), time.process_time()
        self._total += min(wall - self._wall, processor - self._processor)
        self._wall, self._processor = wall, processor
        return self._total


class StopRequest:
    """Notes the first SIGINT or SIGTERM within a `with` block; a second one acts as it did before."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> "StopRequest":
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.requested:
            raise KeyboardInterrupt

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
