"""Connects one client to the daemon: editors start it in place of a server.

Run as a script by a Python without `site` (see `exec_relay`), it imports the standard library's smallest parts alone.
One thread reads the client, another the daemon. When the daemon dies, the second one starts a new one and sends it
the client's documents; the client notices nothing but the time that takes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

if __name__ == "__main__":  # without `site`, nothing but this file says where the package is
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from efim_ls.daemon.address import Address, NoDaemon, python_path
from efim_ls.daemon.journal import Journal, warning
from efim_ls.daemon.link import DaemonDied, Hung, Link, UnbufferedInput, read_message, relay_message
from efim_ls.lsp.wire import END, LOG, STOPPED, UnreadableHeader, framed

FIRST_MESSAGE = "--first-message"  # of `efim-ls serve`: a file descriptor with the first bytes from the client
DYING = (
    "efim-ls: the server has died {count} times in a row, and is started again after growing pauses. "
    "Read {log} for the cause; with the setting `shared` off, this editor gets a separate server."
)
STEADY = 60.0  # seconds that a daemon serves before its death begins a new row
SHORTEST, LONGEST = 0.2, 30.0  # seconds of pauses: none before the first start, then doubled with each
REPORTED = 3  # deaths in a row after which the user is warned
HOPELESS = 6  # daemons in a row that did not come to serve, after which there is no use in starting another


def exec_relay() -> NoReturn:
    """Become a relay: a Python without `site`, which takes half of the memory."""
    os.execv(sys.executable, [sys.executable, "-I", "-S", os.path.abspath(__file__)])


class Deaths:
    """The deaths of daemons that one client has seen in a row, and the pauses before another is started."""

    def __init__(self) -> None:
        self.count = 0
        self._unserved = 0  # how many of the last did not come to serve

    def add(self, served: float | None) -> None:
        """Count the death of a daemon that served the client for some seconds, or never did (None)."""
        self._unserved = self._unserved + 1 if served is None else 0
        self.count = 1 if served is not None and served >= STEADY else self.count + 1

    @property
    def pause(self) -> float:
        """Return the seconds to wait before another daemon is started."""
        return min(LONGEST, SHORTEST * 2.0 ** (self.count - 2)) if self.count > 1 else 0.0

    @property
    def is_hopeless(self) -> bool:
        """Return whether daemons can no longer be started, or die before they serve anybody."""
        return self._unserved >= HOPELESS


class ClientGone(Exception):
    """The client has closed its end."""


class Relay:
    """The two directions of one connection.

    `_journal` is used under `_noting`, which is held for moments. Only who holds `_sending` may write to the daemon;
    whoever needs both takes `_sending` first. The thread that reads the daemon writes to the client, and to nobody
    else: were it to wait for `_sending`, whose holder may wait for the daemon to read, and the daemon for its answers
    to be read, all would wait for ever. It takes `_sending` only once the link is dead, when its holder goes on.
    """

    def __init__(self, link: Link) -> None:
        """Take over a link to the daemon."""
        self._link = link
        self._journal, self._noting, self._sending = Journal(), threading.Lock(), threading.Lock()
        self._client_spoke = threading.Event()
        self._client = os.fdopen(os.dup(1), "wb")
        self._deaths = Deaths()

    def run(self, first: bytes) -> NoReturn:
        """Pass messages on until either side ends; `first` was read of the client already."""
        os.dup2(2, 1)  # nothing but messages may reach the client
        self._link.is_awaited = self._is_awaited
        self._take(first)
        threading.Thread(target=self._read_client, daemon=True).start()
        try:
            while True:
                self._read_daemon()
        except ClientGone:
            _end(1, "the client has stopped reading answers")
        except NoDaemon as error:
            _end(1, f"no server can be had any more, because {error}")

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
        with suppress(OSError):  # the other thread notices, and sends all to a new daemon
            self._link.connection.sendall(data)

    def _send_meanwhile(self, body: bytes) -> None:
        """Send a message of the relay, on a separate thread, unless the link has died by then."""
        link = self._link

        def send() -> None:
            with self._sending:
                if self._link is link:
                    self._send(framed(body))

        threading.Thread(target=send, daemon=True).start()

    def _is_awaited(self) -> bool:
        """Return whether the silent daemon should have said something; if so, ask for a sign of life.

        A daemon that computes for long gives it at once.
        """
        with self._noting:
            is_awaited = self._journal.is_waiting or self._sending.locked()
            question = self._journal.question() if is_awaited else b""
        if is_awaited:
            self._send_meanwhile(question)
        return is_awaited

    def _read_daemon(self) -> None:
        """Pass on what the daemon says until it is gone, and join another."""
        is_stopped = self._pass_on(self._link)
        with suppress(OSError):
            self._link.connection.shutdown(socket.SHUT_RDWR)
        self._client_spoke.clear()
        with self._noting:
            shutting_down, is_waiting = self._journal.shutting_down, self._journal.is_waiting
            last = self._journal.last_answers() if shutting_down else self._journal.end_progress()
        self._write(*last)
        if shutting_down:
            threading.Event().wait()  # the client is about to end this process
        if not is_stopped:
            self._mourn(time.monotonic() - self._link.begun)
        elif not is_waiting:  # no daemon is needed until the client has something to say
            self._client_spoke.wait()
        self._reconnect()

    def _pass_on(self, link: Link) -> bool:
        """Pass the daemon's messages on until it is gone; return whether it was stopped on purpose."""
        is_stopped = False
        try:
            while (body := read_message(link.messages)) is not None:
                method, params = relay_message(body)
                if method == END:
                    os._exit(params)
                elif method == LOG:
                    _say(params)
                elif method == STOPPED:
                    is_stopped = True
                else:
                    self._deliver(body)
        except Hung:
            _say("efim-ls: the server does not answer, and is replaced")
            link.give_up()
        except (OSError, UnreadableHeader):
            pass
        return is_stopped

    def _deliver(self, body: bytes) -> None:
        with self._noting:
            passed, answer = self._journal.received(body)
        if passed is not None:
            self._write(passed)
        if answer is not None:
            self._send_meanwhile(answer)

    def _write(self, *bodies: bytes) -> None:
        try:
            self._client.write(b"".join(map(framed, bodies)))
            self._client.flush()
        except OSError as error:
            raise ClientGone from error

    def _mourn(self, served: float | None) -> None:
        """Count a death, and tell the user of the third in a row."""
        self._deaths.add(served)
        if self._deaths.count == REPORTED:
            self._write(warning(DYING.format(count=REPORTED, log=self._link.address.log)))

    def _reconnect(self) -> None:
        """Join a new daemon, and send it all messages on a separate thread: this one reads its answers meanwhile."""

        def restore() -> None:
            with self._noting:
                everything = self._journal.begin_again()
            self._send(everything)
            self._sending.release()

        link = _joined(self._deaths, NoDaemon, self._mourn)
        self._sending.acquire()  # what the client says now has to wait
        self._link.connection.close()
        self._link, link.is_awaited = link, self._is_awaited
        threading.Thread(target=restore, daemon=True).start()


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


def _joined(deaths: Deaths, failure: type[NoDaemon], mourn: Callable[[None], None]) -> Link:
    """Join a daemon, after the pause that is due; raises NoDaemon, a `failure` once that happens again and again."""
    while True:
        time.sleep(deaths.pause)
        try:
            return Link.join(Address.here())
        except failure:
            mourn(None)
            if deaths.is_hopeless:
                raise


def _say(text: str) -> None:
    """Write a line to stderr, which editors show as their server's output."""
    print(text, file=sys.stderr, flush=True)


def _end(code: int, why: str) -> NoReturn:
    _say(f"efim-ls: {why}")
    os._exit(code)


def main() -> NoReturn:
    """Join the daemon if the client may share one, else serve it alone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        first = read_message(UnbufferedInput())
    except UnreadableHeader as error:
        _end(1, f"{error}: the server ends, because it cannot find the next message")
    if first is None:
        os._exit(1)
    if not _is_shared(first):
        _serve_alone(first)
    try:
        link = _joined(deaths := Deaths(), DaemonDied, deaths.add)
    except NoDaemon as error:
        _say(f"efim-ls: this client gets a separate server, because {error}")
        _serve_alone(first)
    Relay(link).run(first)


if __name__ == "__main__":
    main()
