"""Nobody but the user's own processes and those with the token is answered, and no web page."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from efim_ls.failures import Failure
from efim_ls.http.guard import is_loopback, owner_of, read_token
from tests.http.server import STAND_IN, HttpServer, serving

NOBODY = 65534
# Asks for a path at a port with some headers, as another user if there is one; prints the status.
ASK = """
import encodings.idna, http.client, os, sys  # all that another user could not read
port, path, user, host = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
if user:
    os.setgroups([])
    os.setuid(user)
connection = http.client.HTTPConnection(host, port)
connection.request("GET", path, headers=dict(each.split("=", 1) for each in sys.argv[5:]))
print(connection.getresponse().status)
"""
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving(tmp_path_factory.mktemp("cache"), command=STAND_IN) as server:
        yield server


def status(server: HttpServer, *headers: str, user: int = 0, host: str = "127.0.0.1") -> int:
    command = [sys.executable, "-c", ASK, str(server.port), "/health", str(user), host, *headers]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_the_users_own_processes_need_no_token(server: HttpServer) -> None:
    assert status(server) == 200
    assert status(server, "Authorization=Bearer anything") == 200  # clients send what they have


@as_root
def test_another_user_is_refused(server: HttpServer) -> None:
    assert status(server, user=NOBODY) == 401


@as_root
def test_another_user_who_names_another_address_is_refused(server: HttpServer) -> None:
    assert status(server, "X-Forwarded-For=127.0.0.1", user=NOBODY) == 401
    assert status(server, "Forwarded=for=127.0.0.1", user=NOBODY) == 401


@as_root
def test_another_user_with_the_token_is_answered(server: HttpServer) -> None:
    assert status(server, f"Authorization=Bearer {server.token}", user=NOBODY) == 200
    assert status(server, f"Authorization=bearer {server.token} ", user=NOBODY) == 200


@as_root
@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Basic TOKEN", "Bearer TOKENx", "TOKEN", "Bearer \xe9"])
def test_another_user_with_a_wrong_token_is_refused(server: HttpServer, given: str) -> None:
    assert status(server, f"Authorization={given.replace('TOKEN', server.token)}", user=NOBODY) == 401


def test_the_token_is_the_users_alone_and_stays(server: HttpServer) -> None:
    path = server.cache / "efim-ls" / "http-token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with serving(server.cache, command=STAND_IN) as another:
        assert another.token == server.token != ""


@pytest.mark.parametrize("left", ["", "\n", "short\n", "\xe9"])
def test_a_token_that_was_not_written_is_made_anew(tmp_path: Path, left: str) -> None:
    path = tmp_path / "http-token"
    path.write_text(left, "utf-8")
    path.chmod(0o644)
    token, _ = read_token(tmp_path)
    assert len(token) > 32 and path.read_text("ascii") == f"{token}\n" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_token(tmp_path) == (token, path)


def test_a_token_that_cannot_be_kept_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "http-token").mkdir()
    with pytest.raises(Failure, match="cannot be used .*: check its permissions"):
        read_token(tmp_path)


@pytest.mark.parametrize("origin", ["null", "http://127.0.0.1:8012", "https://example.org", "vscode-webview://x", ""])
def test_a_web_page_is_refused_whatever_it_knows(server: HttpServer, origin: str) -> None:
    assert status(server, f"Origin={origin}", f"Authorization=Bearer {server.token}") == 403


@pytest.mark.parametrize(("site", "answer"), [("cross-site", 403), ("same-site", 403), ("none", 200)])
def test_a_page_may_not_even_show_an_answer_but_the_user_may_open_its_address(
    server: HttpServer, site: str, answer: int
) -> None:
    assert status(server, f"Sec-Fetch-Site={site}", "Sec-Fetch-Dest=image") == answer


def test_no_answer_lets_pages_read_it(server: HttpServer) -> None:
    preflight = server.client.options("/infill", headers={"Origin": "https://example.org"})
    assert preflight.status_code == 403
    for answer in (preflight, server.client.get("/health")):
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("name", ["example.org", "example.org:8012", "127.0.0.1.example.org", "0.0.0.0", "", "x:y"])
def test_a_name_that_was_made_to_lead_here_is_refused(server: HttpServer, name: str) -> None:
    assert status(server, f"Host={name}") == 403


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:8012", "127.0.0.1:1", "[::1]", "[::1]:8012"])
def test_this_machines_own_names_are_served(server: HttpServer, name: str) -> None:
    assert status(server, f"Host={name}") == 200


def test_a_client_on_a_socket_of_ipv6_is_known(server: HttpServer) -> None:
    """As those of Java are, which map addresses of IPv4."""
    with socket.socket(socket.AF_INET6) as client:
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        client.connect(("::ffff:127.0.0.1", server.port))
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert client.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


@as_root
def test_on_loopback_of_ipv6_it_is_the_same(server: HttpServer) -> None:
    with serving(server.cache, "::1", command=STAND_IN) as there:
        assert status(there, host="::1") == 200
        assert status(there, host="::1", user=NOBODY) == 401


def test_where_others_can_reach_it_everybody_needs_the_token(server: HttpServer) -> None:
    with serving(server.cache, "0.0.0.0", command=STAND_IN) as everywhere:
        assert status(everywhere) == 401
        assert status(everywhere, f"Authorization=Bearer {everywhere.token}") == 200
        assert status(everywhere, f"Authorization=Bearer {everywhere.token}", "Host=dev-box:8012") == 200
        assert status(everywhere, f"Authorization=Bearer {everywhere.token}", "Origin=http://dev-box") == 403


def test_a_connection_that_its_owner_has_closed_is_nobodys() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            accepted, peer = listener.accept()
            assert owner_of(peer, listener.getsockname()) == os.getuid()
            assert client.getsockname() == peer
        with accepted:
            assert owner_of(peer, listener.getsockname()) is None


def test_who_listens_at_the_port_of_a_client_that_is_gone_is_not_its_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert owner_of(listener.getsockname(), ("127.0.0.1", 9)) is None


@pytest.mark.parametrize(
    "host, is_local",
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("192.0.2.1", False), ("localhost.example.org", False), ("127.0.0.1.example.org", False), ("", False)],
)  # fmt: skip
def test_what_only_this_machine_reaches(host: str, is_local: bool) -> None:
    assert is_loopback(host) == is_local


def test_errors_say_what_to_do(server: HttpServer) -> None:
    answer = server.client.get("/health", headers={"Host": "example.org"})
    assert json.loads(answer.text)["error"]["message"] == (
        "this server is not called 'example.org': use the address at which it listens"
    )
