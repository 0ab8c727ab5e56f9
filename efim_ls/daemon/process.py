"""The daemon: serves all clients of one installation on one event loop, with one engine thread and shared models."""

from __future__ import annotations

import asyncio
import errno
import faulthandler
import json
import logging
import os
import resource
import select
import signal
import socket
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import time
from typing import cast

import psutil

from efim_ls.completion.completer import Completer
from efim_ls.completion.models.kinds import no_progress
from efim_ls.completion.shared_models import SharedModels
from efim_ls.daemon.address import KEY, Address, NoDaemon, check_peer, is_upgrade, shares_cache
from efim_ls.failures import Failure, FilePlace
from efim_ls.lsp.language_server import EfimServer
from efim_ls.lsp.protocol import EfimProtocol
from efim_ls.lsp.server import build_server
from efim_ls.lsp.transport import MessageReader, serve_messages
from efim_ls.lsp.wire import ACCEPTED, END, LOG, REFUSED, STOPPED, framed
from efim_ls.session import one_shot
from efim_ls.session.engine_thread import EngineClient, EngineThread
from efim_ls.session.loader import CLOSING, LOADING, fetch_model
from efim_ls.session.requests import TURN
from efim_ls.session.server_process import DiscreetFormatter
from efim_ls.session.session import Session
from efim_ls.session.workspace import shared_indexes
from efim_ls.settings import DEFAULTS
from efim_ls.version import installed_version
from model_runtime.cancel import Cancel
from model_runtime.errors import ModelError
from model_runtime.machine import release_memory, share_heap

GREETING = 10.0  # seconds that a client may take for its first line
UNREAD = 1 << 24  # bytes that a client may leave unread before it is cut off: it may come back and begin again
IDLE = 600.0  # seconds for which this process stays once its last client has gone
LETTING_GO = 0.5  # seconds after which threads are seldom still at work for a client that has gone
RETRY = 1.0  # seconds after which an end is tried again that a client has prevented, and accepting that files have
FILES = 8192  # open files that this process may have, where the system allows that: each client takes some
SPARE_FILES = 24  # of them, which the clients that are here need to open a workspace or a model
NO_FILES = "the server of the other editors can open no more files: raise the limit of open files (`ulimit -n`)"

logger = logging.getLogger(__name__)


class Client:
    """One connection, from its first line to its end. Used on the event loop only."""

    writer: asyncio.StreamWriter

    def __init__(self) -> None:
        self.since = time()
        self.server: EfimServer | None = None

    def write(self, data: bytes) -> None:
        """Send bytes, unless the client has left too many unread."""
        if self.writer.transport.get_write_buffer_size() > UNREAD:
            self.writer.transport.abort()
        elif not self.writer.transport.is_closing():
            self.writer.write(data)

    def send(self, method: str, params: object = None) -> None:
        """Send a notification for the relay itself."""
        self.write(framed(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()))

    def close(self) -> None:
        """End the connection once everything is sent."""
        self.writer.close()

    def end(self, code: int) -> None:
        """Make the relay end with an exit code."""
        self.send(END, code)
        self.close()

    def describe(self) -> dict[str, object]:
        """Return who the client is, and how many documents it has open."""
        if self.server is None:
            return {"name": "a connection without a first message", "since": self.since, "documents": 0}
        count = len(list(self.server.documents))
        return {"name": self.server.client_name, "since": self.since, "documents": count}


class Daemon:
    """All clients, and their shared state. Used on the event loop only."""

    def __init__(self, address: Address, listener: socket.socket, idle: float = IDLE) -> None:
        """Take over a socket that listens at the address; end `idle` seconds after the last client has gone."""
        self._address, self._listener, self._inode = address, listener, address.inode()
        self._engine, self._models = EngineThread(), SharedModels()
        self._indexes = shared_indexes(self._engine)
        self._clients: dict[Client, asyncio.Task[None]] = {}
        self._since, self._idle, self._retired = time(), idle, False
        self._timer: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Serve until no client has come for a while, or the user or the system wants an end."""
        loop = asyncio.get_running_loop()
        logging.getLogger().addHandler(RelayedLog(lambda text: loop.call_soon_threadsafe(self._log, text)))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop)
        self._listener.setblocking(False)
        self._listen()
        self._retire_others()
        self._end_after(GREETING)  # whoever started this process is about to connect
        await self._over.wait()
        loop.remove_reader(self._listener)
        self._listener.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(3 * CLOSING):
                await asyncio.gather(*self._clients.values(), return_exceptions=True)
                await self._engine.run("close", lambda _: self._models.close_unused(CLOSING))

    def _accept(self) -> None:
        """Accept a connection, at once a client's: nothing may end this process between the two."""
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # else the loop would try again at once, and for ever
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._listener)
                loop.call_later(RETRY, self._listen)
            return  # else it has gone
        client = Client()
        self._clients[client] = asyncio.ensure_future(self._connected(client, connection))
        self._clients[client].add_done_callback(lambda _: self._left(client))

    def _listen(self) -> None:
        """Accept connections from now on."""
        if not self._over.is_set():
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _left(self, client: Client) -> None:
        """Free the session of a client that has gone."""
        if client.server is not None:
            gone, client.server = weakref.ref(client.server), None
            _free_after(LETTING_GO, gone)

    async def _connected(self, client: Client, connection: socket.socket) -> None:
        """Serve a connection that the user's own processes have made; close any other."""
        try:
            reader, client.writer = await asyncio.open_connection(sock=connection)
            try:
                check_peer(connection)
                line = await asyncio.wait_for(reader.readline(), GREETING)
                await self._serve(client, reader, json.loads(line))
            finally:
                client.close()
        except (NoDaemon, ValueError, OSError, TimeoutError) as error:
            logger.info("a connection ended early: %s", type(error).__name__)
        finally:
            del self._clients[client]
            if not self._clients:
                self._end_after(0 if self._retired else self._idle)  # at once where a newer daemon is in its place

    async def _serve(self, client: Client, reader: asyncio.StreamReader, handshake: dict[str, object]) -> None:
        match handshake:
            case {"want": "serve", "key": self._address.key}:
                await self._serve_editor(client, reader)
            case {"want": "status"}:
                client.write(json.dumps(self._describe(client)).encode())
            case {"want": "complete", "key": self._address.key}:
                client.write(json.dumps(await self._complete(handshake)).encode())
            case {"want": "stop", "key": str(key)} if handshake.get("all") or shares_cache(self._address.key, key):
                client.write(b"{}")
                self._stop()
            case {"want": "retire", "key": str(key)}:
                self._retired = self._retired or is_upgrade(self._address.key, key)
            case {"want": "stop"}:
                pass  # it is meant for the daemons of another installation
            case _:
                logger.info("a connection began with what cannot be understood")

    async def _serve_editor(self, client: Client, reader: asyncio.StreamReader) -> None:
        if _lacks_files():
            client.send(REFUSED, NO_FILES)
            return
        client.send(ACCEPTED, os.getpid())
        session = Session(self._models.load, fetch_model, self._engine, self._indexes)
        server = client.server = build_server(session, client.end)
        protocol = cast("EfimProtocol", server.protocol)
        protocol.exited = client.close
        protocol.set_writer(client)
        try:
            # A client that does not read its answers is not read either.
            await serve_messages(server, MessageReader(reader, client.writer.drain))
        finally:
            client.close()
            await server.leave(CLOSING)
            server.shutdown()

    async def _complete(self, wanted: dict[str, object]) -> one_shot.OneShotResult:
        """Answer `efim-ls complete` with the embedded model; nothing is kept of it on disk."""
        engine, completer = EngineClient(self._engine), None
        place = FilePlace(Path(str(wanted["path"])), int(str(wanted["line"])), int(str(wanted["column"])))

        def answer(cancel: Cancel) -> one_shot.OneShotResult:
            assert completer is not None
            result = one_shot.answer_once(completer, request, bool(wanted["is_asked"]), cancel)
            cancel.check()
            return result

        try:
            document = await asyncio.to_thread(one_shot.read, place.path)
            cursor, moved = one_shot.cursor_at(document, place)
            completer = await engine.run(LOADING, lambda _: self._models.load(DEFAULTS, no_progress))
            request = await asyncio.to_thread(one_shot.request_at, document, cursor, "", completer.tokenizers)
            return await engine.run(document.uri, answer, turn=TURN) | {"moved": moved}
        except (Failure, ModelError) as error:
            return {"failure": str(error), "status": getattr(error, "status", Failure.status)}
        finally:
            if completer is not None:
                await engine.run(LOADING, partial(_forget, completer))

    def _end_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end_if_idle)

    def _end_if_idle(self) -> None:
        """End, unless a client is here or about to be accepted: none can connect while the address is locked."""
        try:
            with self._address.locked(patience=0):
                if self._clients or select.select([self._listener], [], [], 0)[0]:
                    return
                self._leave_address()
        except (NoDaemon, OSError):
            self._end_after(RETRY)
        else:
            self._over.set()

    def _stop(self) -> None:
        """End now: clients start another daemon when they next have something to say."""
        with suppress(NoDaemon, OSError), self._address.locked(patience=0):
            self._leave_address()
        for client, task in self._clients.items():
            if client.server is None:
                task.cancel()
            else:
                client.send(STOPPED)
                client.close()
        self._over.set()

    def _leave_address(self) -> None:
        with suppress(OSError):
            self._address.leave(self._inode)

    def _retire_others(self) -> None:
        """Tell daemons of older versions to end once their clients are gone; remove what dead ones left."""
        with suppress(NoDaemon, OSError), self._address.locked(patience=0):
            for other in self._address.others():
                if (connection := other.connect()) is None:
                    other.socket.unlink(missing_ok=True)
                    continue
                with connection:
                    connection.sendall(self._address.handshake("retire"))

    def _log(self, text: str) -> None:
        for client in self._clients:
            if client.server is not None:
                client.send(LOG, text)

    def _describe(self, asking: Client) -> dict[str, object]:
        return {
            "version": installed_version("efim-ls") or "(not installed)",
            "pid": os.getpid(),
            "since": self._since,
            "mib": round(psutil.Process().memory_info().rss / 2**20),
            "clients": [client.describe() for client in self._clients if client is not asking],
            "models": self._models.describe(),
        }


class RelayedLog(logging.Handler):
    """Sends warnings and errors to the clients, whose editors show what their servers write to stderr."""

    def __init__(self, send: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(DiscreetFormatter("%(levelname)s %(name)s: %(message)s"))
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, on any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._send(self.format(record))


def _free_after(seconds: float, gone: weakref.ref[EfimServer]) -> None:
    """Free the reference cycle that a client left; try again later if another thread still holds a part of it."""

    def free() -> None:
        release_memory()
        if gone() is not None:
            _free_after(2 * seconds, gone)

    asyncio.get_running_loop().call_later(seconds, free)


def _forget(completer: Completer, _: Cancel) -> None:
    """Close a completer without saving its rows."""
    completer.forget_documents()
    completer.close(0)


def _raise_limit_of_files() -> None:
    """Allow this process FILES open files, or as many as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _lacks_files() -> bool:
    """Return whether another client could leave this process without files to open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and limit - psutil.Process().num_fds() < SPARE_FILES


def main(descriptor: int) -> None:
    """Run the daemon on an inherited socket that listens."""
    faulthandler.enable()
    share_heap()
    _raise_limit_of_files()
    logging.getLogger("pygls").setLevel(logging.WARNING)  # below that it logs whole messages
    listener = socket.socket(fileno=descriptor)
    address = Address(Path(cast("str", listener.getsockname())).parent, os.environ.pop(KEY))
    asyncio.run(Daemon(address, listener).run())
    sys.stderr.flush()
    os._exit(0)  # threads of libraries may not outlive the interpreter without a crash
