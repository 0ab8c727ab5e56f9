"""What a client is told of the server's state: when it asks and, where it wishes, unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from efim_ls.session.session import Session

NOTICED = 0.1  # seconds after which a user notices that a request is under way

Send = Callable[[dict[str, object]], None]


class StatusReporter:
    """Knows what is under way, and tells of changes. Used on the event loop only; it wakes nobody who is idle."""

    def __init__(self, session: Session, send: Send) -> None:
        """Have changes sent by `send` once `wanted` is true."""
        self.wanted = False
        self._session, self._send = session, send
        self._percentage: int | None = None
        self._slow = 0  # requests that are under way for so long that the user notices
        self._told: dict[str, object] | None = None

    def status(self, uri: str | None = None) -> dict[str, object]:
        """Whether completions can be had, in this document if one is named, what runs, and what it brought."""
        session = self._session
        off = session.documents.why_off(uri) if uri is not None else None
        return {
            **session.describe(),
            **({"state": "off", "message": off.why} if off else {}),
            "busy": self._slow > 0,
            "percentage": self._percentage,
            "last": session.counters.last,
            "counters": session.counters.suggestions,
        }

    @contextmanager
    def request(self) -> Generator[None]:
        """Be busy while a request takes long, and tell once it is over."""
        noticed = False

        def notice() -> None:
            nonlocal noticed
            noticed = True
            self._slow += 1
            self.changed()

        timer = asyncio.get_running_loop().call_later(NOTICED, notice)
        try:
            yield
        finally:
            timer.cancel()
            self._slow -= noticed
            self.changed()

    def loaded(self, percentage: int | None) -> None:
        """Tell how much of a model is loaded, nothing where none is being loaded."""
        self._percentage = percentage
        self.changed()

    def changed(self) -> None:
        """Tell what has changed, if anything has, once all that happens now has happened."""
        if self.wanted:
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        status = self.status()
        if status != self._told:
            self._told = status
            self._send(status)
