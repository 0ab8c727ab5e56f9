"""Clients that send what cannot be read, do not read or are gone: the server ends, and keeps what it computed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.wire import ENV, ROOT
from tests.waiting import HANG, QUIET

# A server whose model writes down that it was closed. A document called `signal` is edited while the event loop's
# thread holds the engine's lock, and a signal comes just then.
SERVER = """
import signal, sys
sys.path.insert(0, {folder!r})
from pathlib import Path
from efim_ls.lsp import server
from efim_ls.session.engine_thread import EngineThread
from tests.lsp.stand_in import StandIn, load, nothing_to_fetch

drop = EngineThread.drop_idle

def drop_idle(self, key):
    if "signal" in str(key):
        with self._changed:
            signal.raise_signal(signal.SIGTERM)
    drop(self, key)

EngineThread.drop_idle = drop_idle
StandIn.close = lambda self, seconds, then=None: Path({kept!r}).write_text("kept")
sys.exit(server.serve({port}, load, nothing_to_fetch))
"""
END = {"jsonrpc": "2.0", "method": "exit"}


def framed(message: object, header: str = "Content-Length: {}\r\n\r\n") -> bytes:
    body = json.dumps(message).encode()
    return header.format(len(body)).encode() + body


def request(number: int, method: str, params: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize(process: int | None = None) -> dict[str, Any]:
    return request(1, "initialize", {"processId": process, "rootUri": None, "capabilities": {}})


@contextmanager
def serving(kept: Path, port: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    code = SERVER.format(folder=str(ROOT), kept=str(kept), port=port)
    env = {**ENV, "XDG_CACHE_HOME": str(kept.parent / "cache")}
    pipe, command = subprocess.PIPE, [sys.executable, "-c", code]
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[bytes], *data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(data))
    process.stdin.flush()


def answer(process: subprocess.Popen[bytes], number: int) -> dict[str, Any]:
    assert process.stdout is not None
    while True:
        length = 0
        while (line := process.stdout.readline()).strip():
            length = int(line.split(b":")[1]) if line.startswith(b"Content-Length") else length
        message = json.loads(process.stdout.read(length))
        if message.get("id") == number:
            return message


def begin(process: subprocess.Popen[bytes], parent: int | None = None) -> None:
    """Initialize, and wait until the model is loaded."""
    send(process, framed(initialize(parent)), framed({"jsonrpc": "2.0", "method": "initialized", "params": {}}))
    answer(process, 1)
    for number in range(2, 10_000):
        send(process, framed(request(number, "efim/status")))
        if answer(process, number)["result"]["state"] == "ready":
            return


def words(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    text = process.stderr.read().decode()
    return "\n".join(line for line in text.splitlines() if "stray" not in line)


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 99999999999999999999999\r\n\r\n{}",
        b"Content-Length: 1000000000000\r\n\r\n{}",
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
        b"Content-Length: two\r\n\r\n{}",
        b"Content-Length: -2\r\n\r\n{}",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"A" * 65_600,
    ],
    ids=["23-digits", "a-terabyte", "5000-digits", "a-word", "negative", "http", "a-long-line"],
)
def test_a_header_that_cannot_be_read_ends_the_server_and_all_is_kept(header: bytes, tmp_path: Path) -> None:
    with serving(tmp_path / "kept") as process:
        begin(process)
        send(process, header)
        assert process.wait(HANG) == 1
        assert len(words(process).splitlines()) == 1
    assert (tmp_path / "kept").read_text() == "kept"


def test_headers_are_read_whatever_their_case_and_blanks(tmp_path: Path) -> None:
    with serving(tmp_path / "kept") as process:
        begin(process)
        for number, header in enumerate(
            ["content-length:{}\r\n\r\n", "CONTENT-LENGTH :  {} \r\nX: y\r\n\r\n", "\r\nContent-Length: {}\n\n"],
            20_000,
        ):
            send(process, framed(request(number, "efim/status"), header))
            assert answer(process, number)["result"]["state"] == "ready"
        send(process, framed(request(9, "shutdown")))
        answer(process, 9)
        send(process, framed(END))
        assert process.wait(HANG) == 0


def test_a_signal_that_meets_the_loops_lock_loses_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "kept") as process:
        begin(process)
        item = {"uri": "file:///signal.py", "languageId": "python", "version": 1, "text": "x"}
        edit = {"textDocument": item, "contentChanges": [{"text": "y"}]}
        send(process, framed({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": item}}))
        send(process, framed({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": edit}))
        assert process.wait(HANG) == 128 + signal.SIGTERM
    assert (tmp_path / "kept").read_text() == "kept"


def test_the_server_goes_with_its_editor(tmp_path: Path) -> None:
    editor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with editor, serving(tmp_path / "kept") as process:
        begin(process, editor.pid)
        editor.kill()
        assert process.wait(HANG) == 1, "stdin is still open"
        assert "editor's process has ended" in words(process)
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_client_that_closes_its_reading_end_is_left_with_one_line(tmp_path: Path) -> None:
    with serving(tmp_path / "kept") as process:
        begin(process)
        assert process.stdout is not None
        process.stdout.close()
        send(process, *(framed(request(number, "efim/status")) for number in range(100, 120)))
        assert process.wait(HANG) == 1
        assert len(words(process).splitlines()) == 1
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_client_that_does_not_read_is_not_read_either(tmp_path: Path) -> None:
    """Else each of its requests would leave an answer in the server's memory."""
    with serving(tmp_path / "kept", port=0) as process:
        assert process.stderr is not None
        port = re.search(rb":(\d+)\s", process.stderr.readline())
        assert port is not None
        with socket.create_connection(("127.0.0.1", int(port[1]))) as client:
            client.settimeout(QUIET)
            client.sendall(framed(initialize()))
            many = b"".join(framed(request(number, "efim/stats")) for number in range(1000))
            with pytest.raises(TimeoutError):
                for _ in range(1000):
                    client.sendall(many)
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(HANG) == 128 + signal.SIGTERM
