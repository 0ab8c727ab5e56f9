"""A server that answers with too much, too slowly or with the wrong types: a failed answer like any other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from model_runtime.cancel import NEVER
from model_runtime.errors import EngineError
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote import connection
from model_runtime.remote.dialects import NextToken, StreamPiece
from tests.engine.remote.conftest import EngineOf, job_of
from tests.engine.remote.fakes import FakeOpenAi, FakeServer

TYPED = "def add(a, b):\n    return a"
NONSENSE = "does not answer as an inference server does|another vocabulary|sends no token probabilities"


def event(token: Any, likely: Any, cached: Any) -> bytes:
    """An event that says something in vLLM's words and in llama.cpp's."""
    top = {"tokens": ["x"], "token_logprobs": [-1.0], "top_logprobs": [{f"token_id:{likely}": -2.0}]}
    said = {
        "choices": [{"text": "x", "token_ids": [token], "logprobs": top}],
        "usage": {"prompt_tokens_details": {"cached_tokens": cached}},
        "content": "x", "stop": False, "timings": {"cache_n": cached},
        "completion_probabilities": [
            {"id": token, "logprob": -1.0, "top_logprobs": [{"id": likely, "logprob": -2.0}]}
        ],
    }  # fmt: skip
    return b"data: " + json.dumps(said).encode() + b"\n\n"


@pytest.mark.parametrize(
    "page",
    [
        *(event(5, 5, cached) for cached in (float("-inf"), float("nan"), -5, -1e300, 0.5, "7", [1], {"a": 1}, True)),
        *(event(token, 5, 3) for token in ("5", 5.0, None, [5], -1, 1 << 40, True)),
        *(event(5, likely, 3) for likely in (-1, 99_999_999, 1 << 70)),
        b"data: " + b"x" * (2 << 20),
        b"data: " + b"[" * 200_000,
        b'data: {"x": 1e999}\n\n' * (1 << 20),
    ],
)
def test_odd_types_and_sizes_are_nonsense(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf, page: bytes
) -> None:
    if isinstance(server, FakeOpenAi) and (b"token_id" in page and b'"cache_n": 3' in page):
        pytest.skip("it says no ids")
    engine, job = engine_of(server), job_of(tokenizer, TYPED)
    engine.generate(job, NEVER)
    server.page = page
    with pytest.raises(EngineError, match=NONSENSE):
        engine.generate(job, NEVER)
    server.page = b""
    assert engine.generate(job, NEVER).choices


@pytest.mark.parametrize(
    "page",
    [
        b'{"data": [' + b"{}," * (2 << 20) + b"{}]}",
        b'{"data": [{"id": "' + b"x" * 10_000 + b'"}]}',
        b'{"data": [{"id": "x", "owned_by": "vllm", "max_model_len": 1e999}]}',
        b'{"data": [{"id": "x", "owned_by": "vllm", "max_model_len": [1]}]}',
    ],
)
def test_what_a_server_says_of_itself_is_bounded(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf, page: bytes
) -> None:
    server.page = page
    with pytest.raises(EngineError) as caught:
        engine_of(server).generate(job_of(tokenizer, TYPED), NEVER)
    assert len(str(caught.value)) < 10_000


async def parts(*given: bytes) -> AsyncIterator[bytes]:
    for each in given:
        yield each


@pytest.mark.parametrize(
    "given", [[b"a\nb\r\n", b"c", b"d\n", b"", b"\n"], [b"a\nb\r\ncd\n\n"], [b"a", b"\nb\r", b"\ncd\n\n"]]
)
async def test_lines_are_those_of_the_whole_stream(given: list[bytes]) -> None:
    assert [line async for line in connection.lines_of(parts(*given))] == ["a", "b", "cd", ""]


@pytest.mark.parametrize("line", [b"x", b"x\n"])
async def test_neither_a_line_nor_all_of_them_are_endless(line: bytes) -> None:
    with pytest.raises(ValueError):
        async for _ in connection.lines_of(parts(*[line * (1 << 16)] * 1000)):
            pass


def test_proxies_of_the_environment_are_not_used(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert engine_of(server).generate(job_of(tokenizer, TYPED), NEVER).choices


def test_what_was_checked_is_as_it_was() -> None:
    piece = StreamPiece((NextToken(1, 0.5, {2: 0.5}),), "x", False, 3)
    assert piece.checked() is piece and StreamPiece().checked() == StreamPiece()
