"""How long an automatic request waits, so that in a burst of keys a slow machine works on the last one only."""

from __future__ import annotations

from collections import deque
from statistics import median

PAUSE = 1.0  # seconds: who does not type for longer was thinking, which is no rhythm
FASTEST = 0.03  # seconds: a held key repeats about so often; nobody needs answers faster than that
LONGEST = 0.3  # seconds: as long as other tools wait at most; more is felt as a machine that does not react
STEPS = 8  # decode steps of a short answer: about the rest of a line
RECENT = 20  # samples, so that a machine that has become busy or free is noticed within some words
ENOUGH = 5  # samples of either kind before they say anything


class Debounce:
    """Weighs what an answer costs here against the time between keys. Seconds, save where `ms` says otherwise."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._overtakes = False
        self._gaps: deque[float] = deque(maxlen=RECENT)
        self._steps: deque[float] = deque(maxlen=RECENT)
        self._firsts: deque[float] = deque(maxlen=RECENT)

    def note_request(self, now: float, overtakes: bool) -> None:
        """Note when an automatic request came, by any clock that never goes back.

        `overtakes` says that the one before is not answered yet: else there is no burst, and nothing to wait for.
        """
        self._overtakes = overtakes
        if self._last is not None and now - self._last <= PAUSE:
            self._gaps.append(now - self._last)
        self._last = now

    def note_step(self, ms: float, first_ms: float) -> None:
        """Note an answer's milliseconds per decode step, and those to its first new token."""
        self._steps.append(ms)
        self._firsts.append(first_ms)

    def delay(self) -> float:
        """Seconds to wait: none where an answer takes half a typical gap at most, a whole gap where it takes one."""
        if not self._overtakes or min(len(self._gaps), len(self._steps)) < ENOUGH:
            return 0.0
        cost = (median(self._firsts) + STEPS * median(self._steps)) / 1e3
        gap = max(FASTEST, median(self._gaps))
        return min(max(0.0, 2 * cost - gap), gap, LONGEST)
