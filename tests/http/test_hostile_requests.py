"""Clients that send too much, too slowly, or nonsense get errors, while others are served on."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from efim_ls.http.body import MOST_BYTES
from efim_ls.http.server import HEADER_BYTES, MOST_CONNECTIONS
from tests.http.server import STAND_IN, HttpServer, serving
from tests.waiting import HANG, eventually

SHORT = "0.5"  # seconds that a request may take to arrive where it never does
HEAD = b"POST /infill HTTP/1.1\r\nHost: localhost\r\n"


@contextmanager
def waiting_for(seconds: str, cache: Path) -> Iterator[HttpServer]:
    """A server that waits so long for a request to arrive, and after all that it gets serves others."""
    with serving(cache, "127.0.0.1", seconds, command=STAND_IN) as server:
        yield server
        assert server.infill("# say on\n")["content"] == "on"
        code, errors = server.stop()
        assert (code, "Traceback" in errors) == (0, False), errors


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with waiting_for(str(HANG), tmp_path_factory.mktemp("patient")) as server:
        yield server


@pytest.fixture
def server(patient: HttpServer) -> Iterator[HttpServer]:
    yield patient
    assert patient.infill("# say on\n")["content"] == "on"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with waiting_for(SHORT, tmp_path_factory.mktemp("impatient")) as server:
        yield server


def connected(server: HttpServer) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port))
    client.settimeout(HANG)
    return client


def answer(client: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


def status(client: socket.socket) -> int:
    return int(answer(client).split(b" ", 2)[1])


def post(server: HttpServer, body: bytes) -> tuple[int, str]:
    told = server.client.post("/infill", content=body)
    return told.status_code, told.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b'{"prompt": "\xe9"}', b"1" * 5000,
     b'{"n_predict": ' + b"9" * 5000 + b"}"],
    ids=range(9),
)  # fmt: skip
def test_what_is_no_json_is_refused(server: HttpServer, body: bytes) -> None:
    assert post(server, body) == (400, "the body cannot be read: send JSON in UTF-8")


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"text"'])
def test_what_is_no_object_is_refused(server: HttpServer, body: bytes) -> None:
    assert post(server, body) == (400, "the body is no object: send a JSON object")


@pytest.mark.parametrize(
    "field, value",
    [("prompt", 1), ("prompt", []), ("input_extra", {}), ("n_predict", "8"), ("n_predict", True), ("stream", 1)],
)
def test_a_field_of_a_wrong_type_is_refused_by_name(server: HttpServer, field: str, value: object) -> None:
    code, message = post(server, json.dumps({"input_prefix": "x", field: value}).encode())
    assert code == 400 and message.startswith(f"{field!r} has the wrong type: send ")


def test_half_a_surrogate_pair_and_odd_numbers_are_read(server: HttpServer) -> None:
    body = b'{"input_prefix": "\\ud800 # say on\\n", "input_extra": [1, null, {"text": "x"}], %s}'
    told = server.client.post("/infill", content=body % b'"n_predict": 1e999, "n": NaN')
    assert (told.status_code, told.json()["content"]) == (200, "on")


def test_a_body_that_says_it_is_too_long_is_refused_before_it_comes(server: HttpServer) -> None:
    with connected(server) as client:
        client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (MOST_BYTES + 1))
        assert status(client) == 413


def test_a_body_that_turns_out_too_long_is_refused(server: HttpServer) -> None:
    """The answer is lost where the connection is reset, as bytes were on their way that nobody reads: try again."""
    told = None
    while told is None:
        with connected(server) as client, suppress(ConnectionResetError, BrokenPipeError):
            client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            chunk = b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20))
            for _ in range(MOST_BYTES >> 20):
                client.sendall(chunk)
            client.sendall(b"1\r\n \r\n")
            told = status(client)
    assert told == 413


def test_headers_that_are_too_long_are_refused(server: HttpServer) -> None:
    with connected(server) as client:
        client.sendall(HEAD + b"X: " + b"x" * (HEADER_BYTES + 1))
        assert status(client) == 431


@pytest.mark.parametrize("nonsense", [b"\0" * 9 + b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"])
def test_what_is_no_request_is_refused(server: HttpServer, nonsense: bytes) -> None:
    with connected(server) as client:
        client.sendall(nonsense)
        assert status(client) == 400


@pytest.mark.parametrize("chunk", [b"nonsense\r\n", b"5\r\n{}\r\n\r\n\r\n", b"-1\r\n"])
def test_a_body_in_broken_pieces_is_refused(server: HttpServer, chunk: bytes) -> None:
    with connected(server) as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
        assert status(client) == 400


def test_nonsense_behind_a_request_ends_its_connection(server: HttpServer) -> None:
    body = b'{"input_prefix": "# block\\n"}'
    with connected(server) as client:
        client.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s\0\0\r\n\r\n" % (len(body), body))


@pytest.mark.parametrize("begun", [b"", b"G", HEAD])
def test_headers_that_do_not_come_to_an_end_are_not_waited_for(impatient: HttpServer, begun: bytes) -> None:
    with connected(impatient) as client:
        client.sendall(begun)
        assert status(client) == 408


def test_the_headers_of_a_second_request_are_not_waited_for_either(impatient: HttpServer) -> None:
    with connected(impatient) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"GET /hea")
        assert status(client) == 408


def test_a_body_that_does_not_come_to_an_end_is_not_waited_for(impatient: HttpServer) -> None:
    with connected(impatient) as client:
        client.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"input_')
        assert status(client) == 408


def test_a_client_that_goes_in_the_middle_of_a_body_leaves_nothing(server: HttpServer) -> None:
    for _ in range(20):
        with connected(server) as client:
            client.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"input_')


def test_a_thousand_silent_connections_make_room_for_one_that_asks(server: HttpServer) -> None:
    with ExitStack() as stack:
        ended = select.poll()
        for _ in range(1000):
            ended.register(stack.enter_context(connected(server)), select.POLLIN)
        server.renew_client()
        assert server.infill("# say on\n")["content"] == "on"
        eventually(lambda: len(ended.poll(0)) > 1000 - MOST_CONNECTIONS, lambda: f"{len(ended.poll(0))} have ended")


def test_bodies_that_do_not_end_make_room_too(server: HttpServer) -> None:
    with ExitStack() as stack:
        for _ in range(3 * MOST_CONNECTIONS):
            client = stack.enter_context(connected(server))
            with suppress(ConnectionError):  # where it had to make room before it has said anything
                client.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"input_')
        server.renew_client()
        assert server.infill("# say on\n")["content"] == "on"


def test_when_all_are_computed_for_one_more_is_refused(server: HttpServer) -> None:
    body = json.dumps({"input_prefix": "# block\n", "n_predict": 8}).encode()
    head = HEAD + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % len(body)
    server.client.close()  # its own connection would count
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            client = stack.enter_context(connected(server))
            client.sendall(head)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 100 ")  # so the server has read all of it
            client.sendall(body)
        with connected(server) as client:
            assert status(client) == 503
    server.renew_client()


def test_what_a_client_asks_for_in_pipelines_is_answered_in_order(server: HttpServer) -> None:
    with connected(server) as client:
        get = b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
        client.sendall(get % (b"/health", b"") + get % (b"/v1/models", b"Connection: close\r\n"))
        told = answer(client)
        assert told.count(b"HTTP/1.1 200 ") == 2 and told.index(b'"status"') < told.index(b'"data"')
