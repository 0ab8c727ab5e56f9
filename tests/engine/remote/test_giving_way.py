"""A larger model waits while an answer comes that a key waits for, and for nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from efim_ls.completion.giving_way import answering, give_way, hurrying
from efim_ls.completion.larger import LargerModel
from efim_ls.request import Request
from efim_ls.session.session import Session
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import Fp32, read_weights
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.kv.arena import DenseArena
from tests.compiled import require_compiled
from tests.models import VOCABULARY, Tiny, make
from tests.unit.session.test_session_requests import Fake
from tests.waiting import HANG, happened

SHAPE = Tiny(layers=3, context=80)
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, SHAPE.context).astype(np.int32)
MEANWHILE = 50  # passes of another decoder, of the same cost, in which a pass that does not wait would end
Pass = Callable[[], Fp32]


@pytest.fixture(scope="module", params=[1, 2], ids="{} threads".format)
def decoded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pass:
    """What makes a decoder and computes a pass."""
    require_compiled()
    folder = make(tmp_path_factory.mktemp("model"), SHAPE, half=True)
    config = read_config(folder)
    weights = read_weights(folder, config)

    def forward() -> Fp32:
        decoder = NativeDecoder(config, weights, "int8", request.param)
        return decoder.forward(TOKENS, DenseArena(config, SHAPE.context), len(TOKENS))

    return forward


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    """A thread that gives way."""
    with ThreadPoolExecutor(1, initializer=give_way) as made:
        yield made


def begun(thread: ThreadPoolExecutor, decoded: Pass) -> Future[Fp32]:
    """The logits of a pass on a thread, once that has started."""
    began = threading.Event()
    found = thread.submit(lambda: began.set() or decoded())
    assert began.wait(HANG)
    return found


def test_a_pass_waits_while_there_is_an_answer_and_has_the_same_bits(
    decoded: Pass, thread: ThreadPoolExecutor
) -> None:
    alone = thread.submit(decoded).result(HANG)
    with answering():
        with answering():
            waiting = begun(thread, decoded)
            here = [decoded() for _ in range(MEANWHILE)]
        assert not waiting.done()
    assert all(np.array_equal(each, alone) for each in (*here, waiting.result(HANG)))


def test_a_pass_goes_on_for_whoever_waits_for_its_thread(decoded: Pass, thread: ThreadPoolExecutor) -> None:
    with answering():
        waiting = begun(thread, decoded)
        with hurrying():
            waiting.result(HANG)


class Client:
    """A session whose completer answers once its gate is open."""

    def __init__(self) -> None:
        self.fake: Any = Fake()
        self.fake.gate.clear()
        self.fake.answering = answering
        self.session = Session(lambda settings, progress: self.fake)
        self.asking: asyncio.Task[object]

    async def ask(self, text: str) -> None:
        await self.session.load(lambda message, percent: None)
        self.asking = asyncio.create_task(self.session.requests.complete(Request("a", text, len(text))))
        await happened(self.fake.began)

    async def over(self) -> None:
        with suppress(asyncio.CancelledError):
            await self.asking

    async def answer(self) -> None:
        self.fake.gate.set()
        await self.over()

    async def cancel(self) -> None:
        self.asking.cancel()
        await self.over()

    async def leave(self) -> None:
        self.session.engine.leave()
        await self.over()

    async def close(self) -> None:
        assert self.session.engine.close(HANG)
        await self.cancel()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    assert client.session.engine.close(HANG)


@pytest.mark.parametrize("decoded", [1], ids="{} thread".format, indirect=True)
@pytest.mark.parametrize(
    ("text", "end"),
    [("x", Client.answer), ("crash", Client.answer), ("x", Client.cancel), ("x", Client.leave), ("x", Client.close)],
    ids=["answered", "failed", "cancelled", "left", "closed"],
)
async def test_a_pass_waits_until_a_key_is_answered_or_nobody_waits(
    client: Client, decoded: Pass, thread: ThreadPoolExecutor, text: str, end: Callable[[Client], Awaitable[None]]
) -> None:
    await client.ask(text)
    waiting = begun(thread, decoded)
    for _ in range(MEANWHILE):
        decoded()
    assert not waiting.done()
    await end(client)
    waiting.result(HANG)


def test_a_job_of_a_larger_model_begins_once_no_key_waits() -> None:
    require_compiled()
    larger, began = LargerModel("larger", lambda progress: pytest.fail("it is not opened")), threading.Event()
    with answering():
        with answering():
            job = larger.submit(began.set)
        for _ in range(MEANWHILE):  # jobs of other threads
            with ThreadPoolExecutor(1, initializer=give_way) as other:
                other.submit(lambda: None).result(HANG)
        assert not began.is_set()
    job.result(HANG)
    with answering():
        larger.close(0)
