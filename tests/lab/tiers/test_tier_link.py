"""The benchmark of shared caches: what passes over a link is what was sent, and the break-even is arithmetic."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_lab.studies.prefill.costs import Link
from efim_lab.studies.tiers.break_even import ModelCosts, draw, ratios
from efim_lab.studies.tiers.link import PIECE, relayed
from model_runtime.checkpoint.embedded import EMBEDDED

FAST = Link(1.0, 0.001)


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while piece := self.request.recv(PIECE):
            self.request.sendall(piece)


@contextmanager
def echoing(link: Link) -> Generator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with relayed(link, "127.0.0.1", int(server.server_address[1])) as port:
            yield port
        server.shutdown()


@settings(max_examples=10)
@given(st.binary(min_size=1, max_size=3 * PIECE), st.floats(0.0, 0.01))
def test_what_comes_back_is_what_was_sent(sent: bytes, delay: float) -> None:
    with echoing(Link(1.0, delay)) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: client.recv(PIECE), b"")) == sent


def test_several_connections_stay_apart() -> None:
    with echoing(FAST) as port:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        for number, client in enumerate(clients):
            client.sendall(bytes([number]) * 100)
            client.shutdown(socket.SHUT_WR)
        for number, client in enumerate(clients):
            with client:
                assert b"".join(iter(lambda each=client: each.recv(PIECE), b"")) == bytes([number]) * 100


def test_a_link_is_even_where_fetching_takes_as_long_as_computing(tmp_path: Path) -> None:
    costs = ModelCosts("some", 1e-3, exact=4000, int8=1000)
    assert (costs.even_at("exact"), costs.even_at("int8")) == pytest.approx((0.032, 0.008))
    assert np.allclose(ratios([costs], [0.032, 0.064]), [[1.0, 0.5], [0.25, 0.125]])
    draw([costs], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_bytes_are_those_of_blocks() -> None:
    costs = ModelCosts.of("embedded", EMBEDDED, 1.0)
    assert costs.exact == 4096  # eight layers with one head of 64, keys and values, in fp32
    assert costs.int8 == pytest.approx(costs.exact / 4, rel=0.2)
