"""What an engine promises, held by the one in this process and by one on each kind of server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.engine import Engine, PrepareJob
from model_runtime.engine.local import LocalEngine
from model_runtime.engine.stops import StopRule
from model_runtime.errors import EngineError
from model_runtime.ids import common_prefix
from model_runtime.kv.pool import FrameId
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.engine import RemoteEngine
from model_runtime.remote.setting import RemoteOptions
from tests.engine.doubles import ENDLESS, Watched
from tests.engine.remote.conftest import CAPACITY, EngineOf, job_of
from tests.engine.remote.fakes import FAKES, FakeLlamaCpp, FakeOpenAi, FakeServer, FakeVllm, serving

TYPED = (
    "def write(path: Path) -> None:\n    ",
    "def write(path: Path) -> None:\n    re",
    "def write(path: Path) -> None:\n    return",
    "def write(path: Path) -> None:\n    with open(path, enc",
    "x = self._",
    "",
)
PARTS = ("def write(path):\n    größ", "def write(path):\n    größe = 日")  # characters of several tokens


@pytest.fixture
def local(surer: AnyDecoder, tokenizer: Tokenizer) -> LocalEngine:
    return Watched(surer, tokenizer, CAPACITY)


@pytest.fixture(params=["local", *FAKES], ids=lambda each: each if isinstance(each, str) else each.kind)
def engine(request: pytest.FixtureRequest, surer: AnyDecoder, tokenizer: Tokenizer) -> Iterator[Engine]:
    if request.param == "local":
        yield Watched(surer, tokenizer, CAPACITY)
        return
    with serving(request.param(surer, tokenizer)) as served:
        remote = RemoteEngine(RemoteOptions(url=served.url), tokenizer, CAPACITY)
        yield remote
        remote.close(0)


@pytest.mark.parametrize("typed", TYPED)
def test_greedy_answers_are_the_local_ones(
    engine: Engine, local: LocalEngine, tokenizer: Tokenizer, typed: str
) -> None:
    job = job_of(tokenizer, typed)
    made, wanted = engine.generate(job, NEVER), local.generate(job, NEVER)
    if engine.describe().decoder == "openai" and job.prompt.stub:  # as text, half a word gets other tokens
        assert b"".join(tokenizer.token_bytes[each.token] for each in made.choices).startswith(job.prompt.stub)
        return
    assert (made.text, made.complete) == (wanted.text, wanted.complete)
    assert [each.token for each in made.choices] == [each.token for each in wanted.choices]
    if not job.prompt.stub:
        # A server names the likeliest tokens alone, so that these share the chances of the others.
        assert 0.99 * wanted.confidence <= made.confidence <= 1


@pytest.mark.parametrize("typed", PARTS)
def test_a_stub_of_parts_of_characters_is_spelled_or_nothing_is_said(
    engine: Engine, local: LocalEngine, tokenizer: Tokenizer, typed: str
) -> None:
    made, wanted = (each.generate(job_of(tokenizer, typed), NEVER) for each in (engine, local))
    kinds_by_id = isinstance(engine, LocalEngine) or engine.describe().decoder == "vllm"
    assert made.text in ((wanted.text,) if kinds_by_id else (wanted.text, ""))


def test_the_rule_and_the_limit_end_an_answer(engine: Engine, tokenizer: Tokenizer) -> None:
    endless = engine.generate(job_of(tokenizer, TYPED[0], rule=ENDLESS, limit=5), NEVER)
    assert len(endless.choices) == 5 and not endless.complete
    lines = StopRule(multiline=True, indent=0, max_lines=2)
    ended = engine.generate(job_of(tokenizer, TYPED[0], rule=lines, limit=60), NEVER)
    assert ended.text.count("\n") <= 1 and ended.complete


def test_a_longer_prompt_costs_what_is_new(engine: Engine, tokenizer: Tokenizer) -> None:
    first = job_of(tokenizer, "x = 1\n")
    cold = engine.generate(first, NEVER)
    assert (cold.reused, cold.stats.recomputed) == (0, first.prompt.tokens)
    longer = job_of(tokenizer, "x = 1\nwith open(path) as file:\n    data = file")
    warm = engine.generate(longer, NEVER)
    assert warm.reused + warm.stats.recomputed == longer.prompt.tokens
    assert warm.reused >= common_prefix(first.prompt.ids, longer.prompt.ids) // 16 * 16 - 16
    assert warm.reused > 0


def test_a_prompt_is_prepared(engine: Engine, tokenizer: Tokenizer) -> None:
    job = job_of(tokenizer, TYPED[0])
    assert engine.prepare(PrepareJob(job.frame, job.prompt, private=False), NEVER)
    assert engine.generate(job, NEVER).reused > 0


def test_cancelled_work_ends(engine: Engine, tokenizer: Tokenizer) -> None:
    job, cancelled = job_of(tokenizer, TYPED[0]), Cancel(lambda: True)
    with pytest.raises(Cancelled):
        engine.generate(job, cancelled)
    assert not engine.prepare(PrepareJob(job.frame, job.prompt, private=False), cancelled)
    assert engine.generate(job, NEVER).choices, "it is asked again, whatever became of the last one"


def test_what_it_counts_and_says_of_itself_changes_nothing(engine: Engine, tokenizer: Tokenizer) -> None:
    job = job_of(tokenizer, TYPED[0])
    made = engine.generate(job, NEVER)
    assert engine.reusable(job.frame, job.prompt).reused <= job.prompt.tokens
    assert engine.approximate(job.frame, job.prompt) <= job.prompt.tokens
    assert engine.describe() and engine.generate(job, NEVER).text == made.text


def test_prompts_go_as_token_ids(surer: AnyDecoder, tokenizer: Tokenizer, engine_of: EngineOf) -> None:
    job = job_of(tokenizer, "")
    with serving(FakeVllm(surer, tokenizer)) as server:
        engine_of(server, cache_salt="team", priority=3).generate(job, NEVER)
        [body] = server.bodies
        assert body["prompt"] == job.prompt.ids.tolist()
        assert (body["cache_salt"], body["priority"]) == ("team", 3)
        assert body["return_token_ids"] and "truncate_prompt_tokens" not in body
        engine_of(server).generate(job, NEVER)
        assert {"cache_salt", "priority"}.isdisjoint(server.bodies[-1])
    with serving(FakeLlamaCpp(surer, tokenizer)) as server:
        engine_of(server).generate(job, NEVER)
        assert server.bodies[0]["prompt"] == job.prompt.ids.tolist() and server.bodies[0]["cache_prompt"]
    with serving(FakeOpenAi(surer, tokenizer)) as server:
        engine_of(server).generate(job, NEVER)
        assert server.bodies[0]["prompt"] == tokenizer.decode(job.prompt.ids)


def test_preparing_asks_for_no_token_or_one(server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf) -> None:
    job = job_of(tokenizer, TYPED[0])
    engine_of(server).prepare(PrepareJob(job.frame, job.prompt, private=False), NEVER)
    [body] = server.bodies
    assert body.get("n_predict", body.get("max_tokens")) == (server.kind != "llama.cpp")


def test_each_frame_has_a_slot_as_long_as_there_are_some(
    surer: AnyDecoder, tokenizer: Tokenizer, engine_of: EngineOf
) -> None:
    with serving(FakeLlamaCpp(surer, tokenizer)) as server:
        engine = engine_of(server)
        for frame in (1, 2, 1, 3, 1, 2):
            engine.generate(job_of(tokenizer, "", frame=frame, limit=1), NEVER)
        assert [body["id_slot"] for body in server.bodies] == [0, 1, 0, 1, 0, 1]
        engine.forget("a")
        assert engine.reusable(FrameId("a", 1), job_of(tokenizer, TYPED[0]).prompt).reused == 0


def test_a_token_that_spells_the_stub_is_asked_for_where_none_of_the_likeliest_does(
    surer: AnyDecoder, tokenizer: Tokenizer, local: LocalEngine, engine_of: EngineOf
) -> None:
    job = job_of(tokenizer, TYPED[3])
    with serving(FakeVllm(surer, tokenizer)) as server:
        made = engine_of(server).generate(job, NEVER)
        held = [body for body in server.bodies if "allowed_token_ids" in body]
        assert held and all(body["max_tokens"] == 1 for body in held)
        assert made.text == local.generate(job, NEVER).text


def test_private_text_stays_here_unless_it_may_go(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf
) -> None:

    job = job_of(tokenizer, TYPED[0], private=True)
    engine = engine_of(server)
    for ask in (
        lambda: engine.generate(job, NEVER),
        lambda: engine.prepare(PrepareJob(job.frame, job.prompt), NEVER),
    ):
        with pytest.raises(EngineError, match="the text is private"):
            ask()
    assert server.asked == []
    assert engine_of(server, private=True).generate(job, NEVER).choices


def test_a_router_can_tell_whose_requests_they_are(
    server: FakeServer, tokenizer: Tokenizer, engine_of: EngineOf
) -> None:
    for engine in (engine_of(server), engine_of(server)):
        for typed in TYPED[:2]:
            engine.generate(job_of(tokenizer, typed), NEVER)
    assert len(set(server.sessions)) == 2 and all(server.sessions), "one for each engine, whatever it asks"
