"""Tells work to stop: asked between its steps, on any thread."""

from __future__ import annotations

from collections.abc import Callable


class Cancelled(Exception):
    """The work was stopped before its end."""


class Cancel:
    """Whether work has to stop; once true, it stays true."""

    resumes = False  # whether stopped work is called again, and then continues

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        """Ask `is_cancelled`, which is cheap and never raises."""
        self._is_cancelled = is_cancelled

    def __call__(self) -> bool:
        """Return whether the work has to stop."""
        return self._is_cancelled()

    def check(self) -> None:
        """Raise Cancelled if the work has to stop."""
        if self():
            raise Cancelled


NEVER = Cancel(lambda: False)
