"""A connection that may not keep others waiting: silent, slow and endless ones are closed, and there are not many."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS = 128
HEADER_SECONDS = 10.0  # from a request's first byte, or the connection's beginning, to the end of its headers
HEADER_BYTES = 1 << 14
MESSAGES = {
    400: "this is no HTTP request",
    408: "the request took too long: send it at once",
    431: "the headers are too long: send fewer",
    503: "there are too many connections: close some",
}


class BoundedConnection(H11Protocol):
    """One client's connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self.since: float = self.loop.time()

    @property
    def is_open(self) -> bool:
        """Whether the connection is open: an ended connection leaves `connections` only a little later."""
        return not self.transport.is_closing()

    @property
    def has_request(self) -> bool:
        """Whether the headers of a request are here that is not answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    @property
    def is_complete(self) -> bool:
        """Whether all of a request is here that is not answered."""
        return self.has_request and not self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept; over the limit, drop the connection whose request has been incomplete longest."""
        super().connection_made(transport)
        self._expect_headers()
        others = [each for each in cast("set[BoundedConnection]", self.connections - {self}) if each.is_open]
        if len(others) >= MOST_CONNECTIONS:
            unfinished = (each for each in others if not each.is_complete)
            slowest = min(unfinished, key=lambda each: each.since, default=None)
            if slowest is None:
                self.refuse(503)
            else:
                slowest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a request's headers have to be here soon after its first byte."""
        super().data_received(data)
        if self.has_request:
            self._expect_nothing()
        elif self._deadline is None and self.is_open:
            self._expect_headers()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request, with the status that the parser names."""
        failure = sys.exception()
        self.refuse(failure.error_status_hint if isinstance(failure, h11.RemoteProtocolError) else 400)

    def refuse(self, status: int) -> None:
        """Answer with an error instead of a request's answer, unless that has started, and close."""
        if self.has_request:  # what answers it must not write any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        text = MESSAGES.get(status, MESSAGES[400]).encode()
        headers = [("content-type", "text/plain"), ("content-length", str(len(text))), ("connection", "close")]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=text), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect_headers(self) -> None:
        self.since = self.loop.time()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._end_waiting)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_waiting(self) -> None:
        self._deadline = None
        if self.is_open:
            self.refuse(408)
