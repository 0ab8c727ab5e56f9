"""Types the demo's session with servers that fail in every way, and prints a key's time with and without each.

The client waits for better answers, as editors do that cannot be notified of them later; each way is measured in
turns.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median

from benchmarks.keystrokes.round_trips import milliseconds
from benchmarks.table import show
from efim_lab.gate.replay.report import percentile

TURNS = 5
HEADER = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
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
    """Give the address of a server, which is down if there is nothing to serve."""
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


def _figures(turns: list[list[float]]) -> dict[str, float]:
    at = {f"p{each}": median(percentile(turn, each) for turn in turns) for each in (50, 95)}
    return at | {"worst": max(map(max, turns))}


def main() -> None:
    """Measure every way and a server that is not named in turns; print medians of the turns."""
    turns: dict[str, list[list[float]]] = {name: [] for name in ("none is named", *WAYS)}
    for _ in range(TURNS):
        turns["none is named"].append(milliseconds({}))
        for name, serve in WAYS.items():
            with serving(serve) as url:
                turns[name].append(milliseconds({"engine": {"url": url}}))
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
