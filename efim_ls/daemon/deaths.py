"""Deaths of daemons in a row, and the pauses before another is started. Imports nothing, because relays are small."""

from __future__ import annotations

STEADY = 60.0  # seconds that a daemon serves before its death begins a new row
SHORTEST, LONGEST = 0.2, 30.0  # seconds of pauses: none before the first start, then doubled with each
REPORTED = 3  # deaths in a row after which the user is warned
HOPELESS = 6  # daemons in a row that did not come to serve, after which there is no use in starting another


class Deaths:
    """The deaths that one client has seen in a row."""

    def __init__(self) -> None:
        self.count = 0
        self._unserved = 0  # how many of the last did not come to serve

    def add(self, served: float | None) -> None:
        """Count the death of a daemon that served the client for some seconds, or never did (None)."""
        self._unserved = self._unserved + 1 if served is None else 0
        self.count = 1 if served is not None and served >= STEADY else self.count + 1

    @property
    def pause(self) -> float:
        """Return the seconds to wait before another daemon is started."""
        return min(LONGEST, SHORTEST * 2.0 ** (self.count - 2)) if self.count > 1 else 0.0

    @property
    def is_hopeless(self) -> bool:
        """Return whether daemons can no longer be started, or die before they serve anybody."""
        return self._unserved >= HOPELESS
