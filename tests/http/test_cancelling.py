"""Work ends when nobody waits for it: the client has gone, a newer request came, or the server ends."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.http.server import STAND_IN, HttpServer, serving
from tests.waiting import HANG

BLOCK = {"segments": {"prefix": "# block\n", "suffix": "", "filepath": "a.py"}}
NEWER = {"segments": {"prefix": "# say newer\n", "suffix": "", "filepath": "a.py"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving(tmp_path_factory.mktemp("cache"), command=STAND_IN) as server:
        yield server


def begun(server: HttpServer, asked: dict[str, Any]) -> socket.socket:
    """A connection on which a request is being computed."""
    body = json.dumps(asked).encode()
    client = socket.create_connection(("127.0.0.1", server.port))
    client.settimeout(HANG)
    client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n")
    client.sendall(b"Content-Length: %d\r\n\r\n" % len(body))
    assert client.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
    client.sendall(body)
    return client


def test_a_client_that_goes_stops_its_work(server: HttpServer) -> None:
    """The model is one, so another document is answered only once it has stopped."""
    for _ in range(3):
        with begun(server, BLOCK):
            pass
        assert server.infill("# say next\n")["content"] == "next"


def test_a_newer_request_for_a_document_ends_the_older_one(server: HttpServer) -> None:
    with begun(server, BLOCK) as older:
        assert server.post("/v1/completions", NEWER)["choices"] == [{"index": 0, "text": "newer"}]
        told = older.recv(1 << 16)
        assert told.startswith(b"HTTP/1.1 200 ") and told.endswith(b'"choices":[]}')


def test_another_documents_request_waits_its_turn_and_ends_nothing(server: HttpServer) -> None:
    other = {"segments": {"prefix": "# say other\n", "suffix": "", "filepath": "b.py"}}
    with begun(server, BLOCK) as older:
        answers = SimpleQueue[Any]()
        asking = threading.Thread(target=lambda: answers.put(server.post("/v1/completions", other)), daemon=True)
        asking.start()
        assert server.post("/v1/completions", NEWER)["choices"][0]["text"] == "newer"
        assert older.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        assert answers.get(timeout=HANG)["choices"][0]["text"] == "other"


@pytest.mark.parametrize("word", ["crash", "fail ahead"])
def test_a_failing_model_gives_no_completion_and_tells_the_log_no_text(tmp_path: Path, word: str) -> None:
    with serving(tmp_path, command=STAND_IN) as server:
        assert server.infill(f"# {word}\nsecret = 1\n", "")["content"] == ""
        assert server.infill("# say next\n")["content"] == "next"
        code, errors = server.stop()
    assert code == 0 and "secret" not in errors


def test_a_signal_ends_the_server_though_work_is_under_way(tmp_path: Path) -> None:
    with serving(tmp_path, command=STAND_IN) as server, begun(server, BLOCK):
        code, errors = server.stop()
    assert code == 0 and "Traceback" not in errors, errors


def test_a_port_in_use_is_named(tmp_path: Path, server: HttpServer) -> None:
    command = [sys.executable, "-m", "efim_ls", "serve", "--http", str(server.port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    assert ended.returncode == 1
    assert ended.stderr.endswith(
        f"efim-ls: 127.0.0.1:{server.port} cannot be used (Address already in use): choose another port or host\n"
    )
