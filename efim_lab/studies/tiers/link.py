"""A relay before a server that delays data and limits its rate, as a link would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial

from efim_lab.gate.errors import WorkError
from efim_lab.studies.prefill.costs import Link

PIECE = 1 << 16  # bytes that are passed on together
STARTING = 10.0  # seconds


@contextmanager
def relayed(link: Link, host: str, port: int) -> Generator[int]:
    """Yield a port on this machine that leads to a server over a link, by a separate thread; raises WorkError."""
    started = Future[tuple[int, Callable[[], object]]]()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(link, host, port, started)), name="link", daemon=True)
    thread.start()
    try:
        mine, stop = started.result(STARTING)
    except (OSError, TimeoutError) as error:
        raise WorkError(f"the link to the server did not start ({error}): try again") from None
    try:
        yield mine
    finally:
        stop()
        thread.join()


async def _serve(link: Link, host: str, port: int, started: Future[tuple[int, Callable[[], object]]]) -> None:
    """Pass on connections; put the port and a function that ends this into `started`."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # one side has gone
            there = await asyncio.open_connection(host, port)
            await asyncio.gather(_pass_on(link, reader, there[1]), _pass_on(link, there[0], writer))
        writer.close()

    try:
        server = await asyncio.start_server(connect, "127.0.0.1", 0)
    except OSError as error:
        started.set_exception(error)
        return
    started.set_result((server.sockets[0].getsockname()[1], partial(loop.call_soon_threadsafe, stopped.set)))
    await stopped.wait()


async def _pass_on(link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on one direction until it ends: a piece leaves when the line is free, and is there a latency later."""
    loop = asyncio.get_running_loop()
    sent = asyncio.Queue[tuple[float, bytes]]()

    async def send() -> None:
        free = loop.time()
        while piece := await reader.read(PIECE):
            free = max(free, loop.time()) + link.seconds(len(piece))
            sent.put_nowait((free + link.latency, piece))
            if (ahead := free - loop.time()) > 2 * link.latency:  # no more is under way than a real link would hold
                await asyncio.sleep(ahead - 2 * link.latency)
        sent.put_nowait((0.0, b""))

    async def arrive() -> None:
        while (item := await sent.get())[1]:
            await asyncio.sleep(item[0] - loop.time())
            writer.write(item[1])
            await writer.drain()
        writer.write_eof()

    with suppress(OSError):  # one side has gone
        await asyncio.gather(send(), arrive())
