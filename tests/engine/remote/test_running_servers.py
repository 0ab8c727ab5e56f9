"""Servers on this machine, as `efim-ls models` finds them: real sockets, with whatever else may listen there."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from efim_ls.commands.models import running
from efim_ls.commands.models.running import RunningServer, running_servers
from tests.engine.remote.fakes import FakeLlamaCpp, FakeOpenAi, FakeServer, FakeVllm

Expecting = Callable[..., None]
HTML = b"<!doctype html><title>a web server</title>"


@pytest.fixture
def expecting(monkeypatch: pytest.MonkeyPatch) -> Expecting:
    """Compares what is found at the ports of servers."""

    def expect(*ports: int, found: list[RunningServer]) -> None:
        monkeypatch.setattr(running, "PORTS", ports)
        assert running_servers() == found

    return expect


def test_the_file_of_llama_cpp_and_the_name_on_the_hub_of_vllm_are_the_models(
    server: FakeServer, expecting: Expecting, tmp_path: Path
) -> None:
    file = tmp_path / "coder.gguf"
    file.touch()
    server.model, server.model_path = "Qwen/Qwen2.5-Coder-0.5B", str(file)
    models = {FakeVllm: server.model, FakeLlamaCpp: str(file)}
    found = [RunningServer(server.kind, server.url, models[type(server)])] if type(server) in models else []
    expecting(server.server_port, found=found)


def test_a_model_whose_tokenizer_cannot_be_had_is_left_out(server: FakeServer, expecting: Expecting) -> None:
    server.model, server.model_path = "coder", "/elsewhere/coder.gguf"
    expecting(server.server_port, found=[])


@pytest.mark.parametrize("name", ["a\0b", "x" * 5_000, "../" * 50, "$(id)", ""])
def test_odd_names_are_no_models(server: FakeServer, expecting: Expecting, name: str) -> None:
    server.model = server.model_path = name
    expecting(server.server_port, found=[])


@pytest.mark.parametrize(
    "page",
    [HTML, b"[]", b"null", b'{"data": 7}', b'{"data": [7]}', b'{"data": [{"owned_by": []}]}', b'{"data": [{}]}'],
)
def test_another_program_at_a_port_is_no_server(server: FakeServer, expecting: Expecting, page: bytes) -> None:
    server.page = page
    expecting(server.server_port, found=[])


def test_a_port_that_never_answers_holds_up_no_other(server: FakeServer, expecting: Expecting) -> None:
    if isinstance(server, FakeOpenAi | FakeLlamaCpp):
        pytest.skip("one kind is enough")
    server.model = "Qwen/Qwen2.5-Coder-0.5B"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        expecting(port, server.server_port, found=[RunningServer("vllm", server.url, server.model)])


def test_where_nothing_listens_nothing_is_found(expecting: Expecting) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    expecting(port, found=[])
