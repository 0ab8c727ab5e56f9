"""A connection to a daemon that may die or hang, and its messages. Imports little: relays are small processes."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

from efim_ls.daemon.address import KEY, Address, NoDaemon
from efim_ls.lsp.wire import ACCEPTED, LONGEST_HEADER, REFUSED, MessageHeader, UnreadableHeader

LOOK = 10.0  # seconds of silence between two looks at whether something is awaited
PATIENCE, START = 6, 12  # such looks in a row before a daemon is given up, and before it has accepted the client


class MessageSource(Protocol):
    """Bytes of messages."""

    def readline(self, most: int, /) -> bytes:
        """Read a line, or the beginning of a line that is too long."""
        ...

    def read(self, size: int, /) -> bytes:
        """Read a body; it is shorter where the stream ends."""
        ...


class UnbufferedInput:
    """Reads stdin without taking a byte more than is asked for."""

    def readline(self, most: int) -> bytes:
        """Read a line, or the beginning of a line that is too long."""
        line = bytearray()
        while len(line) < most and (byte := os.read(0, 1)):
            line += byte
            if byte == b"\n":
                break
        return bytes(line)

    def read(self, size: int) -> bytes:
        """Read a body; it is shorter where the stream ends."""
        body = bytearray()
        while len(body) < size and (part := os.read(0, size - len(body))):
            body += part
        return bytes(body)


def read_message(source: MessageSource) -> bytes | None:
    """Read the body of the next message; None at the end. Raises UnreadableHeader."""
    header = MessageHeader()
    while line := source.readline(LONGEST_HEADER):
        if header.feed(line):
            body = source.read(header.length or 0)
            return body if len(body) == header.length else None
    return None


def relay_message(body: bytes) -> tuple[str, Any]:
    """Return the method and parameters of a message that may be for the relay itself."""
    message: dict[str, Any] = json.loads(body) if body.find(b'"efim/', 0, 100) >= 0 else {}
    return message.get("method", ""), message.get("params")


class Hung(Exception):
    """The daemon says nothing, and something is awaited."""


class DaemonDied(NoDaemon):
    """The daemon ended or hung before it accepted the client; another may do better."""


class Link(io.RawIOBase):
    """A connection to a daemon that serves this client, and a stream of its messages.

    Whoever reads `messages` sees Hung raised after PATIENCE looks in a row at which something was awaited. Looks are
    counted, not seconds, because a computer may sleep.
    `is_awaited` is asked after LOOK seconds of silence, and again when the daemon has spoken since it said yes.
    `connection` is closed by who owns the link.
    """

    def __init__(self, address: Address, connection: socket.socket) -> None:
        """Take over a connection."""
        super().__init__()
        self.address, self._inode, self._process = address, address.inode(), 0
        self.connection, self.messages = connection, io.BufferedReader(self)
        self.is_awaited: Callable[[], bool] = lambda: True
        self._silent, self._patience = 0, START  # looks in a row at which something was awaited, and how many may be
        self.begun = time.monotonic()

    @classmethod
    def join(cls, address: Address) -> Link:
        """Connect to the daemon, which is started where there is none, and wait until it accepts this client.

        Raises DaemonDied where another attempt may succeed, and NoDaemon where none will.
        """
        link = cls(address, address.join())
        try:
            link.connection.sendall(address.handshake("serve"))
            link._process, link._patience = _accepted(link.messages), PATIENCE
        except Hung as error:
            link.give_up()
            link.connection.close()
            raise DaemonDied(f"the daemon does not answer: {address.log} may say why") from error
        except (OSError, EOFError, UnreadableHeader) as error:
            link.connection.close()
            raise DaemonDied(f"the daemon ended before it served anybody: {address.log} may say why") from error
        except NoDaemon:
            link.connection.close()
            raise
        return link

    def readable(self) -> bool:
        """Return that this is a stream to read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what the daemon says, once it says something; raises Hung."""
        while not select.select([self.connection], [], [], LOOK)[0]:
            if self._silent or self.is_awaited():
                self._silent += 1
            if self._silent > self._patience:
                raise Hung
        self._silent = 0
        return self.connection.recv_into(buffer)

    def give_up(self) -> None:
        """End a daemon that hangs; whoever joins next starts another."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)  # a thread that waits in `sendall` goes on
        with suppress(NoDaemon, OSError), self.address.locked():
            self.address.leave(self._inode)
        if self._process and _is_daemon(self._process, self.address.key):
            with suppress(OSError):
                os.kill(self._process, signal.SIGKILL)


def _accepted(messages: BinaryIO) -> int:
    """Return the process of a daemon that accepts the client; raises NoDaemon with its reason if it does not."""
    match relay_message(read_message(messages) or b""):
        case (method, int() as process) if method == ACCEPTED:
            return process
        case (method, str() as reason) if method == REFUSED:
            raise NoDaemon(reason)
        case _:
            raise EOFError


def _is_daemon(process: int, key: str) -> bool:
    """Return whether a process is the daemon of a key: in a container, its number may be another's."""
    try:
        with open(f"/proc/{process}/environ", "rb") as environment:
            return f"{KEY}={key}".encode() in environment.read().split(b"\0")
    except FileNotFoundError:  # no Linux, and so no containers; or it is gone
        return not os.path.exists("/proc/self/environ")
    except OSError:
        return False
