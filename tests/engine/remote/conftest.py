"""The engine in this process, and one on each kind of server, all with the same tiny model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from threading import Lock

import pytest
import torch

from model_runtime.decoder.any_decoder import AnyDecoder, Span
from model_runtime.engine.engine import GenerateJob
from model_runtime.engine.stops import Rule
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.pool import FrameId
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.engine import RemoteEngine
from model_runtime.remote.setting import RemoteOptions
from tests.engine.doubles import ONE_LINE, Surer
from tests.engine.prompts import prompt_of
from tests.engine.remote.fakes import FAKES, FakeServer, serving

CAPACITY = 500

EngineOf = Callable[..., RemoteEngine]


class WholeCharacters(Surer):
    """Says no token that is a part of a character, as trained models seldom do: two kinds of servers keep it back.

    Unlike a decoder it may be used by several threads: a server goes on with an answer that nobody reads any more.
    """

    def __init__(self, decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
        super().__init__(decoder, tokenizer)
        self._computing = Lock()
        parts = [max(spelled, default=0).to_bytes() >= b"\x80" for spelled in tokenizer.token_bytes]
        self._bonus[: len(parts)] -= 50.0 * torch.tensor(parts)

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        with self._computing:
            return super().forward(ids, arena, rows)

    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        with self._computing:
            return super().forward_spans(spans)


def job_of(
    tokenizer: Tokenizer,
    typed: str,
    *,
    frame: int = 1,
    rule: Rule = ONE_LINE,
    limit: int = 12,
    private: bool = False,
) -> GenerateJob:
    return GenerateJob(FrameId("a", frame), prompt_of(tokenizer, typed), rule, limit, private=private)


@pytest.fixture(scope="session")
def surer(decoder: AnyDecoder, tokenizer: Tokenizer) -> AnyDecoder:
    return WholeCharacters(decoder, tokenizer)


@pytest.fixture(params=FAKES, ids=lambda fake: fake.kind)
def server(request: pytest.FixtureRequest, surer: AnyDecoder, tokenizer: Tokenizer) -> Iterator[FakeServer]:
    with serving(request.param(surer, tokenizer)) as served:
        yield served


@pytest.fixture
def engine_of(tokenizer: Tokenizer) -> Iterator[EngineOf]:
    """Makes engines that ask a server, with options."""
    with ExitStack() as engines:

        def make(server: FakeServer, **options: object) -> RemoteEngine:
            engine = RemoteEngine(RemoteOptions(url=server.url, **options), tokenizer, CAPACITY)  # pyright: ignore
            engines.callback(engine.close, 0)
            return engine

        yield make
