"""Warnings that a user should see only once."""

from __future__ import annotations

from collections.abc import Callable


class WarnOnce:
    """Reports each message the first time only; safe on any thread.

    Messages must not contain paths or text of the user's.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        """Report to `report`; `messages` are those reported so far."""
        self.messages: list[str] = []
        self._report = report

    def warn(self, message: str) -> None:
        """Report a message unless it has been reported before."""
        if message not in self.messages:
            self.messages.append(message)
            self._report(message)
