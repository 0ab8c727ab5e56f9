"""What goes wrong with an engine on another machine becomes a cause and a remedy, and is over when it is over."""

from __future__ import annotations

import logging
import threading
from itertools import count
from pathlib import Path

import pytest

from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.errors import EngineError
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote import connection
from model_runtime.remote.connection import Connection
from tests.engine.remote.conftest import EngineOf, job_of
from tests.engine.remote.fakes import FakeLlamaCpp, FakeServer, FakeVllm, serving
from tests.tiny_tokenizers import tokenizer as tokenizer_of
from tests.waiting import HANG

TYPED = "x = 1\n"


def test_a_server_that_is_not_there_is_found_when_it_comes(
    surer: AnyDecoder, tokenizer: Tokenizer, engine_of: EngineOf
) -> None:
    job = job_of(tokenizer, TYPED)
    with serving(FakeVllm(surer, tokenizer)) as server:
        engine, port = engine_of(server), server.server_port
        made = engine.generate(job, NEVER)
    with pytest.raises(EngineError, match="refuses connections: start the server"):
        engine.generate(job, NEVER)
    with serving(FakeVllm(surer, tokenizer, port)) as server:
        assert engine.generate(job, NEVER).text == made.text
        assert server.asked[0][0] == "/v1/models", "it is asked again what it is"


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "refuses the key"), (404, "or not the model"), (500, "status 500"), (503, "is loading"), (302, "302")],
)
def test_a_status_is_told_without_what_the_server_says(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf, status: int, said: str
) -> None:
    server.status, server.page = status, b"your text was: password"
    with pytest.raises(EngineError, match=said) as caught:
        engine_of(server).generate(job_of(tokenizer, TYPED), NEVER)
    assert "password" not in str(caught.value)


@pytest.mark.parametrize("page", [b"<html>", b"[1]", b"{}", b'{"data": 5}', b'{"data": [{"id": null}]}', b"\xff\x00"])
def test_nonsense_is_said_to_be(server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf, page: bytes) -> None:
    server.page = page
    with pytest.raises(EngineError, match="'engine'"):
        engine_of(server).generate(job_of(tokenizer, TYPED), NEVER)


@pytest.mark.parametrize(
    "page",
    [
        b"data: {}\n\n",
        b"data: 5\n\n",
        b"data: {\n\n",
        b"<html>",
        b'data: {"choices": [{"text": "x", "token_ids": [1]}], "content": "x", "stop": null, "timings": 3}\n\n',
        b'data: {"choices": [{"text": "x", "token_ids": [1], "logprobs": {"tokens": ["y"], "token_logprobs": ["z"],'
        b' "top_logprobs": []}}], "content": "x", "stop": false, "completion_probabilities": [{"id": "x"}]}\n\n',
    ],
)
def test_nonsense_in_a_stream_is_said_to_be(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf, page: bytes
) -> None:
    engine, job = engine_of(server), job_of(tokenizer, TYPED)
    engine.generate(job, NEVER)
    server.page = page
    with pytest.raises(EngineError, match="does not answer as an inference server does|sends no token probabilities"):
        engine.generate(job, NEVER)
    server.page = b""
    assert engine.generate(job, NEVER).choices


def test_a_server_that_hangs_is_given_up(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENCE", 0.05)
    engine = engine_of(server)
    server.go.clear()
    with pytest.raises(EngineError, match="has not answered"):
        engine.generate(job_of(tokenizer, TYPED), NEVER)


@pytest.mark.parametrize("after", [None, 2], ids=["before it answers", "in the midst of an answer"])
def test_a_cancelled_request_closes_its_connection(
    server: FakeServer,
    tokenizer: Tokenizer,
    engine_of: EngineOf,
    monkeypatch: pytest.MonkeyPatch,
    after: int | None,
) -> None:
    monkeypatch.setattr(connection, "SILENCE", 1000.0)  # no other reason closes it
    engine, job = engine_of(server), job_of(tokenizer, TYPED)
    engine.generate(job_of(tokenizer, "", limit=1), NEVER)
    if after is None:
        server.go.clear()
    server.pause_after = after
    asked = len(server.bodies)
    with pytest.raises(Cancelled):
        engine.generate(job, Cancel(lambda: len(server.bodies) > asked and (after is None or not server.go.is_set())))
    assert server.left.wait(HANG), "the server sees that nobody waits"


def test_a_connection_that_was_closed_while_idle_is_made_again(
    surer: AnyDecoder, tokenizer: Tokenizer, engine_of: EngineOf
) -> None:
    job = job_of(tokenizer, TYPED)
    with serving(FakeVllm(surer, tokenizer)) as server:
        engine, port = engine_of(server), server.server_port
        made = engine.generate(job, NEVER)
        server.close_connections()
    with serving(FakeVllm(surer, tokenizer, port)):
        assert engine.generate(job, NEVER).text == made.text


def test_another_vocabulary_is_refused(surer: AnyDecoder, tokenizer: Tokenizer, engine_of: EngineOf) -> None:
    with serving(FakeVllm(surer, tokenizer_of("qwen"))) as server:
        with pytest.raises(EngineError, match="another vocabulary than the one in the setting 'model'"):
            engine_of(server).generate(job_of(tokenizer, TYPED), NEVER)
        assert server.bodies == [], "nothing was sent to it"


@pytest.mark.parametrize("fake", [FakeVllm, FakeLlamaCpp])
def test_another_vocabulary_after_a_restart_is_seen_by_the_first_answer(
    fake: type[FakeServer], surer: AnyDecoder, tokenizer: Tokenizer, engine_of: EngineOf
) -> None:
    with serving(fake(surer, tokenizer)) as server:
        engine, job = engine_of(server), job_of(tokenizer, TYPED)
        engine.generate(job, NEVER)
        server.tokenizer = Reversed(tokenizer)
        for _ in range(2):  # by its text, then by its answers about texts
            with pytest.raises(EngineError, match="another vocabulary"):
                engine.generate(job, NEVER)
        server.tokenizer = tokenizer
        assert engine.generate(job, NEVER).choices


class Reversed(Tokenizer):
    """Another vocabulary of the same size."""

    def __init__(self, other: Tokenizer) -> None:
        super().__init__(other.folder / "tokenizer.json")
        self.token_bytes = self.token_bytes[::-1]
        encode = self.encode
        self.encode = lambda text: self.vocab - 1 - encode(text)


def test_a_short_context_is_refused(surer: AnyDecoder, tokenizer: Tokenizer, engine_of: EngineOf) -> None:
    for fake in (FakeVllm, FakeLlamaCpp):
        with serving(fake(surer, tokenizer)) as server:
            server.context = 100
            with pytest.raises(EngineError, match="takes 100 tokens, and prompts have up to 500"):
                engine_of(server).generate(job_of(tokenizer, TYPED), NEVER)


def test_a_model_must_be_there(server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf) -> None:
    job = job_of(tokenizer, TYPED)
    with pytest.raises(EngineError, match="has no model 'large', but tiny: name one"):
        engine_of(server, model="large").generate(job, NEVER)
    assert engine_of(server, model="tiny").generate(job, NEVER).choices


def test_a_key_is_read_from_where_the_user_says_and_logged_nowhere(
    server: FakeServer,
    tokenizer: Tokenizer,
    engine_of: EngineOf,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    job, file = job_of(tokenizer, TYPED), tmp_path / "key"
    file.write_text("from-a-file\n")
    monkeypatch.setenv("TEAM_KEY", "from-the-environment")
    engine_of(server, key_file=str(file)).generate(job, NEVER)
    assert set(server.keys) == {"Bearer from-a-file"}
    server.keys.clear()
    engine_of(server, key_variable="TEAM_KEY").generate(job, NEVER)
    assert set(server.keys) == {"Bearer from-the-environment"}
    for options in ({"key_variable": "NO_SUCH_KEY"}, {"key_file": str(tmp_path / "none")}):
        with pytest.raises(EngineError, match="key"):
            engine_of(server, **options).generate(job, NEVER)
    assert "from-a-file" not in caplog.text and "from-the-environment" not in caplog.text


def test_at_most_some_requests_are_under_way(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MOST_REQUESTS", 1)
    engine, stop = engine_of(server), threading.Event()
    engine.generate(job_of(tokenizer, "", limit=1), NEVER)
    server.go.clear()
    server.came.clear()

    def generate(cancel: Cancel) -> None:
        with pytest.raises(Cancelled):
            engine.generate(job_of(tokenizer, TYPED), cancel)

    other, looks = threading.Thread(target=generate, args=[Cancel(stop.is_set)]), count()
    other.start()
    assert server.came.wait(HANG)
    generate(Cancel(lambda: next(looks) > 40))  # it has waited for a while
    asked = len(server.bodies)
    stop.set()
    other.join()
    assert asked == 2


def test_a_closed_connection_answers_nobody(server: FakeServer) -> None:
    closed = Connection(server.url, "server")
    server.go.clear()
    asking = threading.Thread(target=_asks, args=(closed,))
    asking.start()
    assert server.came.wait(HANG)
    closed.close()
    asking.join()


def _asks(closed: Connection) -> None:
    with pytest.raises(Cancelled):
        closed.ask("GET", "/v1/models", None, NEVER)
