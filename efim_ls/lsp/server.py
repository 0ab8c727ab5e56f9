"""Builds the server and runs it on stdin and stdout, or on a local port."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import BinaryIO, NoReturn, cast

from efim_ls.lsp.handlers import COMMANDS, HANDLERS
from efim_ls.lsp.language_server import EfimServer
from efim_ls.lsp.protocol import EfimProtocol
from efim_ls.lsp.transport import serve_stdio, serve_tcp
from efim_ls.session.loader import CLOSING, Fetch, Load, fetch_model, load_completer
from efim_ls.session.server_process import ENDING, exit_at_once, log_to_stderr
from efim_ls.session.session import Session

HALTING = 0.5  # seconds that the event loop may take to come to the end of a callback


def build_server(session: Session, end: Callable[[int], None]) -> EfimServer:
    """Return a server of a client's session; it calls `end` with an exit code when there is a reason to end."""
    server = EfimServer(session, end)
    for method, (handler, options) in HANDLERS.items():
        server.feature(method, options)(handler)
    for name, handler in COMMANDS.items():
        server.command(name)(handler)
    return server


def serve(
    tcp_port: int | None = None,
    load: Load = load_completer,
    fetch: Fetch = fetch_model,
    first: BinaryIO | None = None,
) -> int:
    """Serve one client; return 0 after an orderly shutdown, 1 if the client just left.

    `first` has the bytes already read from stdin.
    """
    wire = own_stdout()
    log_to_stderr()
    logging.getLogger("pygls").setLevel(logging.WARNING)  # below that it logs whole messages
    ends, closing = SimpleQueue[int](), threading.Lock()  # exit codes; reentrant, as a signal may interrupt a put
    server = build_server(Session(load, fetch), ends.put)
    threading.Thread(target=_leave, args=(server, ends, closing), daemon=True).start()
    for number in ENDING:
        signal.signal(number, lambda number, _: ends.put(128 + number))
    with suppress(SystemExit):
        asyncio.run(serve_stdio(server, wire, first) if tcp_port is None else serve_tcp(server, tcp_port))
    code = 0 if cast(EfimProtocol, server.protocol).is_shut_down else 1
    closing.acquire()  # kept: where the process is ended otherwise, this thread waits for that
    if not server.session.close(CLOSING):
        exit_at_once(code)
    closing.release()
    return code


def _leave(server: EfimServer, ends: SimpleQueue[int], is_closing: threading.Lock) -> NoReturn:
    """Wait for a reason to end the process, save keys and values, and end it, on a separate thread.

    A signal's handler only names the reason: it interrupts the event loop's thread, which may hold a lock that
    closing needs. That thread goes on meanwhile, and is halted between two callbacks unless it is writing to a
    client that does not read. Nothing can wake a thread that waits for stdin.
    """
    code = ends.get()
    is_closing.acquire()
    halted = threading.Event()
    with suppress(RuntimeError, AttributeError):  # the loop has ended, or has not started
        server.loop.call_soon_threadsafe(_halt, halted)
        halted.wait(HALTING)
    closing = threading.Thread(target=server.session.close, args=(CLOSING,), daemon=True)
    closing.start()
    closing.join(3 * CLOSING)
    exit_at_once(code)


def _halt(halted: threading.Event) -> NoReturn:
    """Keep the event loop's thread from going on: the process is about to end."""
    halted.set()
    while True:
        threading.Event().wait()


def own_stdout() -> BinaryIO:
    """Return stdout for the protocol alone; all other output goes to stderr from now on."""
    sys.stdout.flush()
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return wire
