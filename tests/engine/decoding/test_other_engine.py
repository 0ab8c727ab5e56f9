"""An engine that shares nothing with the local one but the protocol, as one on another machine: it serves as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.completion.completer import Completer
from efim_ls.request import Ahead, Request
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER, Cancel
from model_runtime.engine.decode import DecodeStats
from model_runtime.engine.engine import (
    EngineDescription,
    EngineStatistics,
    GenerateJob,
    Generation,
    Reusable,
    SavedFrame,
)
from model_runtime.engine.output import Output
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.kv.pool import FrameId
from model_runtime.loading.load import LoadedModel
from model_runtime.prompt.prompt import Prompt
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.completion.test_complete import BUDGET, SETTINGS, loaded_from
from tests.engine.doubles import ids_of
from tests.engine.persistence import completer_over, in_memory

URI, TEXT = "file:///project/sums.py", "def total(values):\n    return su"
SURE = 0.9


class FarEngine:
    """Says the same after every prompt, by the tokens and chances that a server would send; reuses nothing."""

    capacity = 500

    def __init__(self, tokenizer: Tokenizer, said: str) -> None:
        self.jobs, self.saved, self.released, self.closed = list[GenerateJob](), list[SavedFrame](), list[str](), 0.0
        self._tokenizer, self._said = tokenizer, said
        self._sampler = Sampler(tokenizer, None, frozenset(tokenizer.special.values()))

    def generate(self, job: GenerateJob, cancel: Cancel) -> Generation:
        cancel.check()
        self.jobs.append(job)
        output, choices = Output(self._sampler, job.prompt.stub, job.rule), list[Choice]()
        for token in self._tokenizer.encode(job.prompt.stub.decode() + self._said)[: job.limit].tolist():
            if not output.complete:
                choices.append(Choice(token, SURE, ids_of([token]), ids_of([1]) * SURE))
                output.append(choices[-1])
        return Generation(
            text=output.text,
            choices=tuple(choices),
            confidence=output.confidence,
            likelihood=output.likelihood,
            reused=0,
            fetched=0,
            approximate=0,
            stats=DecodeStats(recomputed=job.prompt.tokens),
            restore_ms=0.0,
            prefill_ms=1.0,
            decode_ms=1.0,
            complete=output.complete,
            others=("max(values)",) * (job.wanted > 1),
        )

    def prepare(self, frame: FrameId, prompt: Prompt, cancel: Cancel) -> bool:
        return True

    def reusable(self, frame: FrameId, prompt: Prompt) -> Reusable:
        return Reusable(0, 0, 0)

    def approximate(self, frame: FrameId, prompt: Prompt) -> int:
        return 0

    def save(self, document: str, frames: Sequence[SavedFrame], cancel: Cancel) -> bool:
        assert document == URI
        self.saved = list(frames)
        return True

    def release(self, document: str) -> None:
        self.released.append(document)

    def rest(self, seconds: float) -> None:
        pass

    def describe(self) -> EngineDescription:
        return EngineDescription(model="far", device="http://far:8080")

    def statistics(self) -> EngineStatistics:
        return EngineStatistics(tiers=[{"tier": "far"}])

    def flush(self, seconds: float) -> bool:
        return True

    def close(self, seconds: float) -> None:
        self.closed = seconds


@pytest.fixture(scope="module")
def model(folder: Path) -> LoadedModel:
    return loaded_from(folder)


Make = Callable[..., tuple[Completer, FarEngine]]


@pytest.fixture
def make(model: LoadedModel) -> Make:
    def made(settings: Settings = SETTINGS) -> tuple[Completer, FarEngine]:
        engine = FarEngine(model.tokenizer, "m(values)\n")
        return completer_over(engine, model, settings, BUDGET, in_memory(model)), engine

    return made


def request(text: str = TEXT, *, explicit: bool = False, count: int = 1) -> Request:
    return Request(URI, text, len(text), explicit, count=count)


def test_it_answers_and_its_costs_are_counted(make: Make) -> None:
    completer, engine = make()
    answer = completer.complete(request(), NEVER)
    [job] = engine.jobs
    assert (answer.text, answer.reason) == ("m(values)", None)
    assert (answer.costs.reused, answer.costs.recomputed) == (0, job.prompt.tokens)
    assert answer.costs.new_tokens == len(engine.generate(job, NEVER).choices) > 0


def test_what_is_typed_through_asks_it_nothing(make: Make) -> None:
    completer, engine = make()
    completer.complete(request(), NEVER)
    answer = completer.complete(request(TEXT + "m(val"), NEVER)
    assert (answer.text, answer.costs.known > 0, len(engine.jobs)) == ("ues)", True, 1)


def test_a_key_gets_the_alternatives_that_it_sends(make: Make) -> None:
    completer, engine = make()
    answer = completer.complete(request(explicit=True, count=3), NEVER)
    assert (answer.text, answer.alternatives, engine.jobs[0].wanted) == ("m(values)", ("max(values)",), 3)


def test_a_superseded_request_does_not_reach_it(make: Make) -> None:
    completer, engine = make()
    assert completer.complete(request(), Cancel(lambda: True)).reason == "superseded"
    assert engine.jobs == []


def test_nothing_is_prefetched_and_all_is_explained_and_described(make: Make) -> None:
    completer, _ = make()
    assert completer.prefetch(request())(NEVER)
    costs = completer.explain(request())["costs"]
    assert isinstance(costs, dict) and costs["reused"] == 0 < costs["recomputed"]
    assert {**completer.describe(), "model": "far", "device": "http://far:8080"} == completer.describe()
    assert (completer.tiers, completer.flush(0)) == ([{"tier": "far"}], True)
    assert completer.ahead == Ahead(0, 0, completer.ahead.ms)


@pytest.mark.parametrize(("patterns", "private"), [((), frozenset[str]()), (("sums.*",), frozenset({URI}))])
def test_it_is_told_what_to_save_and_what_of_it_is_private(
    make: Make, patterns: tuple[str, ...], private: frozenset[str]
) -> None:
    completer, engine = make(replace(SETTINGS, private_files=patterns))
    completer.complete(request(), NEVER)
    assert completer.save(URI, NEVER)
    assert engine.saved == [SavedFrame(engine.jobs[0].frame, engine.jobs[0].prompt, private)]
    completer.close(7.0)
    assert (engine.released, engine.closed) == ([URI], 7.0)
