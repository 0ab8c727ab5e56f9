"""The server's status: on request and, if the client wants them, as notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from efim_ls.session.session import Session

NOTICEABLE = 0.1  # seconds after which a user notices that a request is running

Send = Callable[[dict[str, object]], None]


class StatusReporter:
    """Tracks running work and reports changes. Used on the event loop only; sends nothing while idle."""

    def __init__(self, session: Session, send: Send) -> None:
        """Send changes with `send` once `wanted` is true."""
        self.wanted = False
        self._session, self._send = session, send
        self._percentage: int | None = None
        self._slow = 0  # running requests that have become noticeable
        self._sent: dict[str, object] | None = None

    def status(self, uri: str | None = None) -> dict[str, object]:
        """Return whether completions are available, in one document if given, what runs, and the counters."""
        session = self._session
        off = session.documents.why_off(uri) if uri is not None else None
        return {
            **session.describe(session.requests.language_at_cursor(uri) if uri is not None else ""),
            **({"state": "off", "message": off.why} if off else {}),
            "notice": session.requests.notice(uri) if uri is not None and off is None else None,
            "busy": self._slow > 0,
            "percentage": self._percentage,
            "last": session.counters.last,
            "typical_ms": session.counters.typical_ms,
            "counters": session.counters.suggestions,
        }

    @contextmanager
    def request(self) -> Generator[None]:
        """Report the server as busy while a request takes noticeably long, and again when it ends."""
        noticed = False

        def notice() -> None:
            nonlocal noticed
            noticed = True
            self._slow += 1
            self.changed()

        timer = asyncio.get_running_loop().call_later(NOTICEABLE, notice)
        try:
            yield
        finally:
            timer.cancel()
            self._slow -= noticed
            self.changed()

    def loaded(self, percentage: int | None) -> None:
        """Report how much of a model is loaded, in percent; None if none is being loaded."""
        self._percentage = percentage
        self.changed()

    def changed(self) -> None:
        """Report a change, if there is one, after all pending callbacks of the event loop."""
        if self.wanted:
            asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        status = self.status()
        if status != self._sent:
            self._sent = status
            self._send(status)
