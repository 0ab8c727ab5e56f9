"""Loads a model and serves it over HTTP until a signal comes, in a separate process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Generator
from dataclasses import replace
from typing import Any, cast

import h11
import uvicorn
from rich.console import Console
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from efim_ls.failures import Failure
from efim_ls.http.app import build_app
from efim_ls.http.completions import Completions
from efim_ls.http.guard import is_loopback, read_token
from efim_ls.paths import cache_folder
from efim_ls.session.loader import CLOSING, Fetch, Load, fetch_model, load_completer
from efim_ls.session.server_process import ENDING, exit_at_once, log_to_stderr
from efim_ls.session.session import Session
from efim_ls.settings import DEFAULTS, Settings

KEEP_ALIVE = 30  # seconds that a client may keep a connection for its next request
WAITING = 128  # connections that may wait to be accepted
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
    """One client's connection; a silent, slow or endless one is closed, so that it keeps no other waiting."""

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


class UvicornServer(uvicorn.Server):
    """A server that ends at a signal, so that keys and values can be saved afterwards."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Let signals end the server alone; uvicorn's own would then end the process."""
        for number in ENDING:
            signal.signal(number, self.handle_exit)
        yield


def serve(host: str, port: int, model: str, load: Load = load_completer, fetch: Fetch = fetch_model) -> int:
    """Serve until SIGINT or SIGTERM; raises Failure if the port or the model cannot be used."""
    log_to_stderr()
    session = Session(load, fetch)
    try:
        with _bound(host, port) as listener:
            alone = replace(DEFAULTS.engine, alone=True)  # clients read its name with each answer
            asyncio.run(_serve(session, Settings(model=model, engine=alone), listener, host))
    finally:
        is_over = session.close(CLOSING)
    if not is_over:
        exit_at_once(0)
    return 0


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket at an address, on which nobody can connect yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as failure:
        raise Failure(f"{host}:{port} cannot be used ({failure.strerror}): choose another port or host") from failure
    return listener


async def _serve(session: Session, settings: Settings, listener: socket.socket, host: str) -> None:
    completions = await _loaded(session, settings)
    token, path = read_token(cache_folder(settings.cache_folder))
    config = uvicorn.Config(
        build_app(completions, host, token),
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # or a client could say that it is another
        server_header=False,
        backlog=WAITING,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(CLOSING),
        h11_max_incomplete_event_size=HEADER_BYTES,
    )
    listener.listen(WAITING)  # whoever reads the next line may connect at once
    name = f"[{host}]" if ":" in host else host
    whom = "other users of this machine need" if is_loopback(host) else "clients need"
    print(f"efim-ls: listening on http://{name}:{listener.getsockname()[1]}", file=sys.stderr)
    print(f"efim-ls: {whom} the token in {path}", file=sys.stderr, flush=True)
    await UvicornServer(config).serve([listener])


async def _loaded(session: Session, settings: Settings) -> Completions:
    """Load the model; raises Failure if it cannot be used, even if another could take its place."""
    session.configure(settings)
    with Console(stderr=True).status("loading the model") as shown:
        await session.load(lambda message, percent: shown.update(f"{message} ({percent} %)"))
    if session.status.state != "ready" or session.status.fallback:
        raise Failure(session.status.fallback or session.status.message)
    assert session.model.completer is not None
    return Completions(session, session.model.completer.tokenizers, settings.model or "efim-ls")
