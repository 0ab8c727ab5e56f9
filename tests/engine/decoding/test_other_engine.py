"""An engine that shares nothing with the local one but the protocol, as one on another machine: it serves as well."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.completion.completer import Completer
from efim_ls.completion.models import kinds
from efim_ls.completion.models.kinds import ComputedHere, Progress
from efim_ls.completion.models.open import OpenedModel
from efim_ls.completion.shared_models import SharedModels
from efim_ls.request import Ahead, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER, Cancel
from model_runtime.engine.decode import DecodeStats
from model_runtime.engine.engine import (
    Engine,
    EngineDescription,
    EngineStatistics,
    GenerateJob,
    Generation,
    PrepareJob,
    Reusable,
    SavedFrame,
)
from model_runtime.engine.output import Output
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.errors import EngineError
from model_runtime.kv.pool import FrameId
from model_runtime.loading.load import LoadedModel
from model_runtime.prompt.context import NO_CONTEXT
from model_runtime.prompt.prompt import Prompt
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import Excerpt, Excerpts
from tests.engine.completion.test_complete import BUDGET, SETTINGS, loaded_from
from tests.engine.doubles import ids_of

OTHER = "file:///project/means.py"
URI, TEXT = "file:///project/sums.py", "def total(values):\n    return su"
SURE = 0.9
CAPACITY = 500
DOWN = "http://far:8080 refuses connections: start the server there"
PRIVATE = "the text is private, and the model is on another machine: choose a model here"


class FarEngine:
    """Says the same after every prompt, by the tokens and chances that a server would send; reuses nothing.

    While it `is_far`, it refuses private text.
    """

    def __init__(self, tokenizer: Tokenizer, said: str) -> None:
        self.jobs, self.saved, self.released, self.closed = list[GenerateJob](), list[SavedFrame](), list[str](), 0.0
        self.prepared, self.is_down, self.is_far = list[PrepareJob](), False, True
        self._tokenizer, self._said = tokenizer, said
        self._sampler = Sampler(tokenizer, None, frozenset(tokenizer.special.values()))

    def generate(self, job: GenerateJob, cancel: Cancel) -> Generation:
        cancel.check()
        self._refuse(job.private)
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

    def prepare(self, job: PrepareJob, cancel: Cancel) -> bool:
        self._refuse(job.private)
        self.prepared.append(job)
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

    def share_memory(self, parts: int) -> None:
        pass

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

    def _refuse(self, private: bool) -> None:
        if self.is_down:
            raise EngineError(DOWN)
        if private and self.is_far:
            raise EngineError(PRIVATE)


@pytest.fixture(scope="module")
def model(folder: Path) -> LoadedModel:
    return loaded_from(folder)


Make = Callable[..., tuple[Completer, FarEngine]]


@pytest.fixture
def make(model: LoadedModel) -> Make:
    def made(settings: Settings = SETTINGS) -> tuple[Completer, FarEngine]:
        engine = FarEngine(model.tokenizer, "m(values)\n")
        return Completer.over(OpenedModel(model, engine, BUDGET, CAPACITY), settings), engine

    return made


def request(text: str = TEXT, *, uri: str = URI, explicit: bool = False, count: int = 1) -> Request:
    return Request(uri, text, len(text), explicit, count=count)


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
    assert (answer.text, answer.alternatives, engine.jobs[0].wanted) == ("m(values)", ("max(values)",), 6)


def test_a_superseded_request_does_not_reach_it(make: Make) -> None:
    completer, engine = make()
    assert completer.complete(request(), Cancel(lambda: True)).reason == "superseded"
    assert engine.jobs == []


def test_nothing_is_prefetched_and_all_is_explained_and_described(make: Make) -> None:
    completer, _ = make()
    assert completer.prepare(Upcoming(request()), NEVER)
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
    engine.is_far = False
    completer.complete(request(), NEVER)
    assert completer.save(URI, NEVER)
    assert engine.saved == [SavedFrame(engine.jobs[0].frame, engine.jobs[0].prompt, private)]
    completer.close(7.0)
    assert (engine.released, engine.closed) == ([URI], 7.0)


def test_a_failure_is_told_once_and_harms_nothing_else(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    completer, engine = make()
    assert completer.complete(request(uri=OTHER), NEVER).text == "m(values)"
    engine.is_down = True
    for text in (TEXT, TEXT[:-1]):
        answer = completer.complete(request(text), NEVER)
        assert (answer.text, answer.reason, answer.cause) == ("", "no answer", DOWN)
        assert completer.prepare(Upcoming(request(text)), NEVER), "waiting would not help"
    assert [each.getMessage() for each in caplog.records] == [f"the model gives no answer: {DOWN}"]
    assert completer.complete(request(TEXT + "m(val", uri=OTHER), NEVER).text == "ues)", "known, so not asked for"
    assert completer.notice("python") == f"The model gives no answer: {DOWN}."
    engine.is_down = False
    assert completer.complete(request(), NEVER).text == "m(values)"
    assert completer.notice("python") is None and completer.save(URI, NEVER)


def test_private_text_is_said_to_be(make: Make) -> None:
    completer, engine = make(replace(SETTINGS, private_files=("sums.*",)))
    for uri in (URI, "untitled:one", OTHER):  # what is no file is private
        answer = completer.complete(request(uri=uri), NEVER)
        assert answer.cause == ("" if uri == OTHER else PRIVATE)
        assert completer.prepare(Upcoming(request(TEXT + "m(", uri=uri)), NEVER)
    assert {job.frame.document for job in engine.jobs} == {job.frame.document for job in engine.prepared} == {OTHER}


def test_an_excerpt_of_a_private_file_makes_the_text_private(make: Make) -> None:
    completer, engine = make(replace(SETTINGS, private_files=("sums.*",)))
    shown = Excerpt("imports", "sums.py", "/project/sums.py", (0,), "def total(values): ...\n", "it is imported")
    asked = replace(request(uri=OTHER), context=Excerpts(imports=(shown,), repository="project", path="means.py"))
    assert completer.complete(asked, NEVER).cause == PRIVATE
    assert completer.complete(replace(asked, context=NO_CONTEXT), NEVER).cause == PRIVATE, "it is still shown"
    assert not engine.jobs


def test_an_engine_has_six_members_and_two_objects_stand_before_it(make: Make) -> None:
    """Those on the engine thread: before them there is `Requests`, on the event loop."""
    completer, engine = make()
    ways = list[list[str]]()
    generate = engine.generate

    def watched(job: GenerateJob, cancel: Cancel) -> Generation:
        ways.append([frame.frame.f_code.co_qualname for frame in inspect.stack() if frame.function == "complete"])
        return generate(job, cancel)

    engine.generate = watched  # pyright: ignore[reportAttributeAccessIssue]
    completer.complete(request(), NEVER)
    assert ways == [["ModelAnswerer.complete", "Completer.complete"]]
    assert len([name for name in vars(Engine) if not name.startswith("_")]) <= 6


def test_nothing_is_saved_here_beside_it(make: Make) -> None:
    completer, _ = make()
    completer.complete(request(), NEVER)
    assert completer.save(URI, NEVER) and completer.describe()["store"] == "none"
    completer.close_document(URI, save=False)
    completer.close(0)


def test_another_kind_of_model_is_a_row(
    make: Make, model: LoadedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, engine = make()

    class Far(ComputedHere):
        def is_named(self, name: str) -> bool:
            return name.startswith("http://")

        def folder(self, settings: Settings) -> Path:
            return tmp_path

        def open(self, settings: Settings, progress: Progress) -> OpenedModel:
            return OpenedModel(model, engine, BUDGET, CAPACITY)

    monkeypatch.setattr(kinds, "KINDS", (Far(), *kinds.KINDS))
    settings, models = replace(SETTINGS, model="http://far:8080"), SharedModels()
    assert kinds.kind_of(SETTINGS) is kinds.KINDS[1]
    for load in (Completer.load, models.load):
        assert load(settings, lambda *_: None).complete(request(), NEVER).text == "m(values)"
    assert models.describe() == [{"model": "far", "clients": 1}]
