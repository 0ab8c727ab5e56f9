"""What the fakes of tests/engine/remote promise of servers, asked of real ones that have the embedded model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.engine.engine import PrepareJob
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.engine import RemoteEngine
from model_runtime.remote.setting import Kind, RemoteOptions
from tests.engine.remote.conftest import job_of
from tests.engine.remote.test_remote_engine import TYPED
from tests.team.conftest import URLS

pytestmark = pytest.mark.team
CONTEXT = 2048


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(EMBEDDED / "tokenizer.json")


@pytest.fixture(params=[kind for kind, url in URLS.items() if url])
def engine(request: pytest.FixtureRequest, tokenizer: Tokenizer) -> Iterator[RemoteEngine]:
    kind: Kind = request.param
    remote = RemoteEngine(RemoteOptions(url=URLS[kind]), tokenizer, CONTEXT)
    yield remote
    remote.close(0)


@pytest.mark.parametrize("typed", TYPED)
def test_answers_are_read_whatever_is_typed(engine: RemoteEngine, tokenizer: Tokenizer, typed: str) -> None:
    job = job_of(tokenizer, typed)
    made, again = (engine.generate(job, NEVER) for _ in range(2))
    assert made.choices and 0 < made.confidence <= 1 and made.text == again.text
    spelled = b"".join(tokenizer.token_bytes[each.token] for each in made.choices)
    assert spelled.startswith(job.prompt.stub) or job.prompt.stub.startswith(spelled)


def test_a_prompt_that_comes_again_is_reused(engine: RemoteEngine, tokenizer: Tokenizer) -> None:
    job = job_of(tokenizer, "x = 1\n")
    assert engine.prepare(PrepareJob(job.frame, job.prompt, private=False), NEVER)
    facts = engine.probe(job, NEVER)
    assert facts.kind in URLS and facts.model and facts.context >= CONTEXT
    assert facts.cached > 0 and facts.round_trip > 0


def test_a_cancelled_request_ends(engine: RemoteEngine, tokenizer: Tokenizer) -> None:
    asked = iter([False] * 5)
    with pytest.raises(Cancelled):
        engine.generate(job_of(tokenizer, "x = 2\n", limit=64), Cancel(lambda: next(asked, True)))
    assert engine.generate(job_of(tokenizer, "x = 2\n"), NEVER).choices
