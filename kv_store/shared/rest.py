"""When a server that failed is asked again."""

from __future__ import annotations

from collections.abc import Callable

FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds after a failure, and after many in a row

Clock = Callable[[], float]


class Rest:
    """A time without requests after a failure, twice as long after each further one. Safe on any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._pause, self._ends = clock, 0.0, 0.0

    @property
    def is_over(self) -> bool:
        """Whether the server may be asked."""
        return self._clock() >= self._ends

    def begin(self) -> None:
        """Rest after a failure; failures of concurrent requests count once."""
        if self.is_over:
            self._pause = min(max(FIRST_REST, 2 * self._pause), LONGEST_REST)
            self._ends = self._clock() + self._pause

    def end(self) -> None:
        """Forget failures after a success."""
        self._pause = self._ends = 0.0
