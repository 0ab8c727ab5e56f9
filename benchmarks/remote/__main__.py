"""Types the demo's session beside servers that fail in every way, and prints what a key takes beside none at all.

The client waits for better answers, as editors do that cannot be told of them later; each way is measured in turns.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.keystrokes.demo_session import demo_session
from benchmarks.table import show
from editor_clients.headless.client import editor
from efim_lab.replay.report import percentile
from efim_lab.replay.trace import requests_after

TURNS = 5
NAME = "typing_demo.py"
HEADER = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
ALONE: dict[str, object] = {"persist": False, "shared": False, "suggestions": "sure", "other_files": "off"}
Serve = Callable[[socket.socket], None]


def hang(_: socket.socket) -> None:
    """Read nothing and answer nothing, with the connection open."""


def fail(connection: socket.socket) -> None:
    """Answer with the status 500."""
    _answer(connection, b"500 Internal Server Error", b"{}")


def babble(connection: socket.socket) -> None:
    """Answer with what no engine says."""
    _answer(connection, b"200 OK", b'{"data": [1, 2], "models": "<html>"}')


def _answer(connection: socket.socket, status: bytes, body: bytes) -> None:
    connection.recv(1 << 16)
    connection.sendall(HEADER % (status, len(body), body))
    connection.close()


WAYS: dict[str, Serve | None] = {
    "refuses connections": None,
    "hangs": hang,
    "answers 500": fail,
    "answers nonsense": babble,
}


@contextmanager
def serving(serve: Serve | None) -> Iterator[str]:
    """Give the address of a server; of one that is down, if there is nothing to serve."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address, kept = f"http://127.0.0.1:{listener.getsockname()[1]}", list[socket.socket]()
        if serve is None:
            listener.close()
            yield address
            return

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # it is closed
                    return
                kept.append(connection)
                serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield address


async def typed(settings: dict[str, object]) -> list[float]:
    """Type the session, and return the milliseconds until each answer but the first, which computes the window."""
    recorded, found = demo_session(), list[float]()
    with TemporaryDirectory() as empty:
        uri = (Path(empty) / NAME).as_uri()
        async with editor({**ALONE, **settings}, folder=Path(empty)) as headless:
            headless.open(uri, recorded.start, "python")
            await headless.settled()
            for event in recorded.events:
                for patch in event.patches:
                    headless.edit(uri, *patch)
                if (cursor := requests_after(event)) is not None:
                    began = perf_counter()
                    await headless.complete(uri, cursor)
                    found.append((perf_counter() - began) * 1e3)
    return found[1:]


def _figures(turns: list[list[float]]) -> dict[str, float]:
    at = {f"p{each}": median(percentile(turn, each) for turn in turns) for each in (50, 95)}
    return at | {"worst": max(map(max, turns))}


def main() -> None:
    """Measure every way and a server that is not named in turns; print medians of the turns."""
    turns: dict[str, list[list[float]]] = {name: [] for name in ("none is named", *WAYS)}
    for _ in range(TURNS):
        turns["none is named"].append(asyncio.run(typed({})))
        for name, serve in WAYS.items():
            with serving(serve) as url:
                turns[name].append(asyncio.run(typed({"engine": {"url": url}})))
    figures = {
        name: {f"p{at}": median(percentile(each, at) for each in found) for at in (50, 95)}
        | {"worst": max(map(max, found))}
        for name, found in turns.items()
    }
    base = figures["none is named"]["p95"]
    rows = [(name, each["p50"], each["p95"], each["p95"] / base, each["worst"]) for name, each in figures.items()]
    show("milliseconds a key, with a server that ...", ("", "p50", "p95", "of p95 without", "worst"), rows)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
