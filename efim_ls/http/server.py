"""Loads a model and serves it over HTTP until a signal comes, in a separate process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Generator

import uvicorn
from rich.console import Console

from efim_ls.failures import Failure
from efim_ls.http.app import build_app
from efim_ls.http.completions import Completions
from efim_ls.http.connection import HEADER_BYTES, BoundedConnection
from efim_ls.http.guard import is_loopback, read_token
from efim_ls.paths import cache_folder
from efim_ls.session.loader import CLOSING, Fetch, Load, fetch_model, load_completer
from efim_ls.session.server_process import ENDING, exit_at_once, log_to_stderr
from efim_ls.session.session import Session
from efim_ls.settings import Settings

KEEP_ALIVE = 30  # seconds that a client may keep a connection for its next request
WAITING = 128  # connections that may wait to be accepted


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
            asyncio.run(_serve(session, Settings(model=model), listener, host))
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
