"""Connects one client to the daemon: what an editor starts in place of a server of its own.

Run as a script by a Python without `site` (see `exec_relay`), it imports the standard library's smallest parts alone.
One thread reads the client, another the daemon. When the daemon dies, the second one starts a new one and tells it
what the client's documents are; the client notices nothing but the time that takes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any, BinaryIO, NoReturn, Protocol

if __name__ == "__main__":  # without `site`, nothing but this file says where the package is
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from efim_ls.daemon.address import Address, NoDaemon, python_path
from efim_ls.daemon.journal import Journal
from efim_ls.lsp.wire import END, LOG, LONGEST_HEADER, STOPPED, Header, UnreadableHeader, framed

FIRST_MESSAGE = "--first-message"  # of `efim-ls serve`: a file descriptor with what was read of the client
DEATHS = 10  # in a row, of daemons that have answered nothing, after which there is no use in starting another
PAUSE = 0.05  # seconds before the third such start, and 0.05 more before each that follows


def exec_relay() -> NoReturn:
    """Become a relay: a Python without `site`, which takes half of the memory."""
    os.execv(sys.executable, [sys.executable, "-I", "-S", os.path.abspath(__file__)])


class ClientGone(Exception):
    """The client has closed its end."""


class Relay:
    """The two directions of one connection.

    `_journal` is used under `_noting`, which is held for moments. Only who holds `_sending` may write to the daemon
    or replace the connection. Only the thread that reads the daemon writes to the client.
    """

    def __init__(self, address: Address, connection: socket.socket) -> None:
        """Take over a connection to the daemon."""
        self._address, self._connection = address, connection
        self._journal, self._noting, self._sending = Journal(), threading.Lock(), threading.Lock()
        self._client_spoke = threading.Event()
        self._client = os.fdopen(os.dup(1), "wb")
        self._deaths = 0  # of daemons in a row that have said nothing

    def run(self, first: bytes) -> NoReturn:
        """Pass messages on until either side ends; `first` was read of the client already."""
        os.dup2(2, 1)  # nothing but messages may reach the client
        self._send(self._address.hello("serve"))
        self._take(first)
        threading.Thread(target=self._read_client, daemon=True).start()
        try:
            while True:
                self._read_daemon()
        except ClientGone:
            _end(1, "the client has stopped reading answers")
        except NoDaemon as error:
            _end(1, str(error))

    def _read_client(self) -> NoReturn:
        code = 1
        try:
            with open(0, "rb", closefd=False) as stdin:
                while not self._journal.is_over and (body := read_message(stdin)) is not None:
                    self._take(body)
            code = 0 if self._journal.is_over and self._journal.shutting_down else 1
        except UnreadableHeader as error:
            _end(1, f"{error}: the server ends, because it cannot find the next message")
        finally:  # without this thread the process would go on deaf
            os._exit(code)

    def _take(self, body: bytes) -> None:
        """Pass on a message of the client."""
        with self._sending:
            with self._noting:
                messages = self._journal.sent(body)
            self._send(b"".join(map(framed, messages)))
        self._client_spoke.set()

    def _send(self, data: bytes) -> None:
        with suppress(OSError):  # the other thread notices, and a new daemon is told all
            self._connection.sendall(data)

    def _read_daemon(self) -> None:
        """Pass on what the daemon says until it is gone, and join another."""
        with self._connection.makefile("rb") as source:
            is_stopped = self._pass_on(source)
        self._connection.close()
        self._client_spoke.clear()
        with self._noting:
            shutting_down, is_waiting = self._journal.shutting_down, self._journal.is_waiting
            last = self._journal.last_answers() if shutting_down else self._journal.farewell()
        self._write(*last)
        if shutting_down:
            threading.Event().wait()  # the client is about to end this process
        if is_stopped and not is_waiting:  # no daemon is needed until the client has something to say
            self._client_spoke.wait()
        self._reconnect()

    def _pass_on(self, source: BinaryIO) -> bool:
        """Pass the daemon's messages on until it is gone; return whether it was stopped on purpose."""
        is_stopped = False
        with suppress(OSError, UnreadableHeader):
            while (body := read_message(source)) is not None:
                self._deaths = 0
                method, params = _own(body)
                if method == END:
                    os._exit(params)
                elif method == LOG:
                    print(params, file=sys.stderr, flush=True)
                elif method == STOPPED:
                    is_stopped = True
                else:
                    self._deliver(body)
        return is_stopped

    def _deliver(self, body: bytes) -> None:
        with self._noting:
            passed, answer = self._journal.received(body)
        if passed is not None:
            self._write(passed)
        if answer is not None:
            with self._sending:
                self._send(framed(answer))

    def _write(self, *bodies: bytes) -> None:
        try:
            self._client.write(b"".join(map(framed, bodies)))
            self._client.flush()
        except OSError as error:
            raise ClientGone from error

    def _reconnect(self) -> None:
        """Join a new daemon, and tell it all on a thread of its own: this one reads what it answers meanwhile."""
        self._deaths += 1
        if self._deaths > DEATHS:
            raise NoDaemon(f"the server has died {DEATHS} times in a row: {self._address.log} may say why")
        time.sleep(max(0, self._deaths - 2) * PAUSE)

        def tell() -> None:
            self._send(self._address.hello("serve"))
            with self._noting:
                everything = self._journal.begin_again()
            self._send(everything)
            self._sending.release()

        self._sending.acquire()  # what the client says now has to wait
        self._address = Address.here()
        self._connection = self._address.join()
        threading.Thread(target=tell, daemon=True).start()


class MessageSource(Protocol):
    """Bytes of messages."""

    def readline(self, most: int, /) -> bytes:
        """Read a line, or the beginning of one that is too long."""
        ...

    def read(self, size: int, /) -> bytes:
        """Read a body; it is shorter where the stream ends."""
        ...


def read_message(source: MessageSource) -> bytes | None:
    """Read the body of the next message; None at the end. Raises UnreadableHeader."""
    header = Header()
    while line := source.readline(LONGEST_HEADER):
        if header.feed(line):
            body = source.read(header.length or 0)
            return body if len(body) == header.length else None
    return None


class _Unbuffered:
    """Reads a file descriptor without taking a byte more than is asked for."""

    def readline(self, most: int) -> bytes:
        line = bytearray()
        while len(line) < most and (byte := os.read(0, 1)):
            line += byte
            if byte == b"\n":
                break
        return bytes(line)

    def read(self, size: int) -> bytes:
        body = bytearray()
        while len(body) < size and (part := os.read(0, size - len(body))):
            body += part
        return bytes(body)


def _own(body: bytes) -> tuple[str, Any]:
    """Return the method and parameters of a message that may be for relays."""
    message: dict[str, Any] = json.loads(body) if body.find(b'"efim/', 0, 100) >= 0 else {}
    return message.get("method", ""), message.get("params")


def _is_shared(first: bytes) -> bool:
    """Return whether a client's first message lets it share a daemon: the setting `shared`, true unless given."""
    try:
        options = json.loads(first)["params"]["initializationOptions"]
        ours = next((options[name] for name in ("efim-ls", "efim_ls") if name in options), options)
        return ours.get("shared", True) is not False
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return True


def _serve_alone(first: bytes) -> NoReturn:
    """Become a server for this client alone, which gets the first message from a file without a name."""
    if hasattr(os, "memfd_create"):
        begun = os.memfd_create("first", 0)
        os.write(begun, framed(first))
        os.lseek(begun, 0, os.SEEK_SET)
    else:
        begun, write = os.pipe()
        os.set_inheritable(begun, True)
        os.write(write, framed(first))  # a pipe takes more at once than a client's first message has
        os.close(write)
    command = [sys.executable, "-m", "efim_ls", "serve", FIRST_MESSAGE, str(begun)]
    os.execve(sys.executable, command, {**os.environ, **python_path()})


def _end(code: int, why: str) -> NoReturn:
    print(f"efim-ls: {why}", file=sys.stderr, flush=True)
    os._exit(code)


def main() -> NoReturn:
    """Join the daemon if the client may share one, else serve it alone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        first = read_message(_Unbuffered())
    except UnreadableHeader as error:
        _end(1, f"{error}: the server ends, because it cannot find the next message")
    if first is None:
        os._exit(1)
    if not _is_shared(first):
        _serve_alone(first)
    try:
        address = Address.here()
        connection = address.join()
    except NoDaemon as error:
        print(f"efim-ls: this client gets a server of its own, because {error}", file=sys.stderr, flush=True)
        _serve_alone(first)
    Relay(address, connection).run(first)


if __name__ == "__main__":
    main()
