"""Serves a client on stdin and stdout, or on a local port: reads headers in any readable form, writes answers."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import BinaryIO, Protocol

from pygls.io_ import run_async

from efim_ls.lsp.language_server import EfimServer
from efim_ls.lsp.wire import LONGEST_HEADER, MessageHeader, UnreadableHeader

logger = logging.getLogger(__name__)


class Source(Protocol):
    """Bytes from a client."""

    def readline(self) -> Awaitable[bytes]:
        """Read a line, or the beginning of a line that is too long."""
        ...

    def readexactly(self, n: int) -> Awaitable[bytes]:
        """Read a body."""
        ...


class StdinSource:
    """Reads a binary stream on a thread of `executor`."""

    def __init__(self, stdin: BinaryIO, executor: Executor) -> None:
        self._stdin, self._executor = stdin, executor

    def readline(self) -> Awaitable[bytes]:
        """Read a line, or the beginning of a line that is too long."""
        return asyncio.get_running_loop().run_in_executor(self._executor, self._stdin.readline, LONGEST_HEADER)

    def readexactly(self, n: int) -> Awaitable[bytes]:
        """Read a body; it is shorter where the stream ends."""
        return asyncio.get_running_loop().run_in_executor(self._executor, self._stdin.read, n)


class MessageReader:
    """Gives pygls each message's header in the one form that it reads; what cannot be read ends the input.

    Behind a header that cannot be read there is no way to find the next message.
    """

    def __init__(self, source: Source, ready: Callable[[], Awaitable[None]] | None = None) -> None:
        """Read from `source`, each message once `ready()` is done."""
        self._source, self._ready = source, ready
        self._blank = False

    async def readline(self) -> bytes:
        """Return the header of the next message, then the blank line behind it; nothing at the end of the input."""
        if self._blank:
            self._blank = False
            return b"\r\n"
        await asyncio.sleep(0)  # a request's handler starts before a later edit is applied
        if self._ready is not None:
            await self._ready()
        length = await self._length()
        self._blank = length is not None
        return b"" if length is None else b"Content-Length: %d\r\n" % length

    async def readexactly(self, n: int) -> bytes:
        """Read a body."""
        return await self._source.readexactly(n)

    async def _length(self) -> int | None:
        header = MessageHeader()
        try:
            while line := await self._source.readline():
                if header.feed(line):
                    return header.length
        except ValueError:  # asyncio's reader, of a line that is too long
            return _unreadable("a line of a message's header is too long")
        except UnreadableHeader as error:
            return _unreadable(str(error))
        return None


def _unreadable(what: str) -> None:
    logger.error("%s: the server ends, because it cannot find the next message", what)


class StdoutWriter:
    """Writes answers to a binary stream; once the client has closed its end, calls `lost` and drops them."""

    def __init__(self, stdout: BinaryIO, lost: Callable[[], None]) -> None:
        self._stdout, self._lost, self._open = stdout, lost, True

    def close(self) -> None:
        """Close the stream."""
        with suppress(OSError, ValueError):
            self._stdout.close()

    def write(self, data: bytes) -> None:
        """Write all of the data and flush."""
        if not self._open:
            return
        try:
            self._stdout.write(data)
            self._stdout.flush()
        except (OSError, ValueError):
            self._open = False
            logger.error("the client has stopped reading answers: the server ends")  # noqa: TRY400 - it is no surprise
            self._lost()


async def serve_tcp(server: EfimServer, port: int) -> None:
    """Serve the first client that connects from this machine; refuse all others."""
    connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    connected = asyncio.get_running_loop().create_future()

    def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close() if connected.done() else connected.set_result((reader, writer))

    try:
        listener = await asyncio.start_server(connect, "127.0.0.1", port)
    except OSError as error:
        print(f"efim-ls: cannot listen on port {port}: {error.strerror}; choose another", file=sys.stderr)
        return
    host, port = listener.sockets[0].getsockname()
    print(f"efim-ls: listening on {host}:{port}", file=sys.stderr)
    reader, writer = await connected
    listener.close()
    server.protocol.set_writer(writer)
    # A client that does not read its answers is not read either: asyncio would keep them all.
    await serve_messages(server, MessageReader(reader, writer.drain))


async def serve_stdio(server: EfimServer, wire: BinaryIO, first: BinaryIO | None) -> None:
    """Serve the client that started this process."""
    server.protocol.set_writer(StdoutWriter(wire, lambda: server.end(1)))
    if first is not None:
        await serve_messages(server, MessageReader(StdinSource(first, server.thread_pool)))
    await serve_messages(server, MessageReader(StdinSource(sys.stdin.buffer, server.thread_pool)))


async def serve_messages(server: EfimServer, reader: MessageReader) -> None:
    """Serve a client until its input ends."""
    server.loop = asyncio.get_running_loop()
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await run_async(threading.Event(), reader, server.protocol, logger, server.report_server_error)
