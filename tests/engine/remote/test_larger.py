"""A larger model on its thread: who may touch its engine, what stops it, and how clients come to share it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.completion.answerers.elsewhere import ElsewhereAnswerer
from efim_ls.completion.completer import Completer
from efim_ls.completion.larger import LargerDocuments, LargerModel
from efim_ls.completion.model_in_use import ModelInUse
from efim_ls.completion.models.kinds import of_embedded
from efim_ls.completion.models.open import OpenedModel
from efim_ls.completion.models_by_language import Models
from efim_ls.completion.shared_models import SharedModels
from efim_ls.request import Answer, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER, Cancel
from model_runtime.engine.engine import GenerateJob, Generation, PrepareJob, SavedFrame
from model_runtime.errors import ModelError
from model_runtime.loading import threads
from model_runtime.loading.load import LoadedModel
from model_runtime.remote.setting import RemoteOptions
from model_runtime.shelves.excerpts.excerpts import Excerpt, Excerpts
from tests.engine.completion.test_complete import BUDGET, CAPACITY, SETTINGS, loaded_from
from tests.engine.decoding.test_other_engine import FarEngine
from tests.engine.remote.test_local_first import LOCAL, TEXT, URI, Here
from tests.engine.speaking import speaking
from tests.waiting import HANG, eventually

SURER = "m(values, start)\n"
MINE = replace(SETTINGS, max_new_tokens=60, prefetch_seconds_per_minute=60, engine=RemoteOptions(wait_seconds=HANG))


class Larger(FarEngine):
    """An engine that notes which thread calls which method, and waits where it is told to until it is stopped."""

    def __init__(self, *said: object) -> None:
        super().__init__(*said)  # pyright: ignore
        self.is_far, self.waits = False, False
        self.began, self.stopped = threading.Event(), threading.Event()
        self.called = dict[str, set[str]]()

    def _note(self, method: str) -> None:
        self.called.setdefault(method, set()).add(threading.current_thread().name)

    def _wait(self, cancel: Cancel) -> None:
        if self.waits:
            self.began.set()
            eventually(cancel, "nothing stops it")
            self.stopped.set()
        cancel.check()

    def generate(self, job: GenerateJob, cancel: Cancel) -> Generation:
        self._note("generate")
        self._wait(cancel)
        return super().generate(job, cancel)

    def prepare(self, job: PrepareJob, cancel: Cancel) -> bool:
        self._note("prepare")
        self._wait(cancel)
        return super().prepare(job, cancel)

    def save(self, document: str, frames: Sequence[SavedFrame], cancel: Cancel) -> bool:
        self._note("save")
        self.saved = list(frames)
        return True

    def release(self, document: str) -> None:
        self._note("release")

    def rest(self, seconds: float) -> None:
        self._note("rest")

    def share_memory(self, parts: int) -> None:
        self._note("share_memory")

    def close(self, seconds: float) -> None:
        self._note("close")


@pytest.fixture(scope="module")
def model(folder: Path) -> LoadedModel:
    return loaded_from(folder)


@pytest.fixture
def engine(model: LoadedModel) -> Larger:
    return Larger(model.tokenizer, SURER)


@pytest.fixture
def larger(model: LoadedModel, engine: Larger) -> Iterator[LargerModel]:
    made = LargerModel("larger", lambda progress: OpenedModel(model, engine, BUDGET, CAPACITY))
    yield made
    made.close(HANG)
    assert engine.called["close"] == {"larger model_0"}


Make = Callable[..., Completer]


@pytest.fixture
def make(model: LoadedModel, larger: LargerModel) -> Iterator[Make]:
    with ExitStack() as made:

        def make_one(settings: Settings = MINE, name: str = "1 ") -> Completer:
            engine = Here(model.tokenizer, LOCAL)
            engine.is_far = False
            asking = ElsewhereAnswerer(LargerDocuments(larger, settings, name), settings.engine.wait_seconds)
            first = ModelInUse(OpenedModel(model, engine, BUDGET, CAPACITY), settings, elsewhere=asking)
            completer = Completer(Models(first, settings), settings)
            made.callback(completer.close, HANG)
            opening = completer.open_elsewhere(lambda *_: None)
            assert opening is not None
            opening.result(HANG)
            return completer

        yield make_one


def request(text: str = TEXT, uri: str = URI) -> Request:
    return Request(uri, text, len(text), language="python")


def better(answer: Answer) -> Answer:
    assert answer.better is not None
    return answer.better.result(HANG)


def idle(completer: Completer) -> None:
    eventually(lambda: completer.flush(0), "the larger model is not idle")


def test_its_engine_is_touched_on_its_thread_alone(make: Make, larger: LargerModel, engine: Larger) -> None:
    completer = make()
    first = completer.complete(request(), NEVER)
    found = better(first)
    assert (first.text, found.text, found.source) == ("m(local)", "m(values, start)", "from the model in larger")
    completer.prepare(Upcoming(request(TEXT + "m(values, start)\n    ")), NEVER)
    idle(completer)
    larger.share_memory(2)
    assert completer.save(URI, NEVER)
    completer.close_document(URI, save=True)
    completer.rest(0)
    idle(completer)
    methods = {"generate", "prepare", "save", "release", "rest", "share_memory"}
    assert engine.saved and engine.called == {method: {"larger model_0"} for method in methods}


@pytest.mark.parametrize("end", [lambda each: each.close_document(URI, save=False), lambda each: each.close(HANG)])
def test_it_stops_when_its_document_or_its_client_goes(
    make: Make, engine: Larger, end: Callable[[Completer], None]
) -> None:
    completer, engine.waits = make(), True
    answer = completer.complete(request(), NEVER)
    assert engine.began.wait(HANG)
    end(completer)
    assert engine.stopped.wait(HANG)
    assert better(answer) == answer


def test_text_of_other_files_is_for_the_model_that_has_room_for_it(model: LoadedModel, engine: Larger) -> None:
    budget, here = replace(BUDGET, context=(60, 60, 60)), Here(model.tokenizer, LOCAL)
    here.is_far = False
    larger = LargerModel("larger", lambda progress: OpenedModel(model, engine, budget, CAPACITY))
    asking = ElsewhereAnswerer(LargerDocuments(larger, MINE, "1 "), HANG)
    first = ModelInUse(OpenedModel(model, here, BUDGET, CAPACITY), MINE, elsewhere=asking)
    completer = Completer(Models(first, MINE), MINE)
    opening = completer.open_elsewhere(lambda *_: None)
    assert opening is not None and opening.result(HANG) and completer.context_budget == (60, 60, 60)
    shown = Excerpt("imports", "sums.py", "/project/sums.py", (0,), "def total(values): ...\n", "it is imported")
    context = Excerpts(imports=(shown,), repository="project", path="means.py")
    better(completer.complete(replace(request(), context=context), NEVER))
    read = [model.tokenizer.decode(each.jobs[-1].prompt.ids) for each in (engine, here)]
    assert ["total(values): ..." in each for each in read] == [True, False], read
    completer.close(HANG)
    larger.close(HANG)


def test_it_stops_for_another_place_and_goes_on_for_more_letters(make: Make, engine: Larger) -> None:
    completer, engine.waits = make(), True
    completer.complete(request(), NEVER)
    assert engine.began.wait(HANG)
    completer.complete(request(TEXT + "x"), NEVER)
    assert not engine.stopped.is_set()
    engine.waits = False
    elsewhere = completer.complete(request(f"\n{TEXT}"), NEVER)
    assert engine.stopped.wait(HANG)
    assert better(elsewhere).text == "m(values, start)"


def before_answers(completer: Completer, look: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the model here call a function before each answer."""
    here = completer.models.first.engine
    generate = here.generate
    monkeypatch.setattr(here, "generate", lambda job, cancel: look() and generate(job, cancel))


def test_it_is_asked_once_the_answer_here_is_made(
    make: Make, larger: LargerModel, engine: Larger, monkeypatch: pytest.MonkeyPatch
) -> None:
    completer, seen = make(), list[int]()

    def look() -> bool:
        larger.submit(lambda: None).result(HANG)  # behind all that was asked before
        seen.append(len(engine.jobs))
        return True

    before_answers(completer, look, monkeypatch)
    assert better(completer.complete(request(), NEVER)).text == "m(values, start)"
    assert (seen, len(engine.jobs)) == ([0], 1)


def test_what_a_key_makes_useless_is_stopped_before_the_answer_here(
    make: Make, engine: Larger, monkeypatch: pytest.MonkeyPatch
) -> None:
    completer, engine.waits = make(), True
    completer.complete(request(), NEVER)
    assert engine.began.wait(HANG)
    engine.waits = False
    before_answers(completer, lambda: engine.stopped.wait(HANG), monkeypatch)
    assert better(completer.complete(request(f"\n{TEXT}"), NEVER)).text == "m(values, start)"


def test_of_requests_that_wait_none_begins_while_a_later_one_is_answered_here(
    make: Make, larger: LargerModel, engine: Larger, monkeypatch: pytest.MonkeyPatch
) -> None:
    completer, free = make(), threading.Event()

    def work(cancel: Cancel) -> None:
        engine.began.set()
        assert free.wait(HANG)

    monkeypatch.setattr(engine, "_wait", work)
    completer.complete(request(), NEVER)
    assert engine.began.wait(HANG)
    second = completer.complete(request(TEXT + "x"), NEVER)

    def look() -> bool:
        free.set()
        larger.submit(lambda: None).result(HANG)
        assert len(engine.jobs) == 1
        return True

    before_answers(completer, look, monkeypatch)
    better(completer.complete(request(TEXT + "xy"), NEVER))
    assert second.better is not None and second.better.cancelled() and len(engine.jobs) == 2


def test_what_it_may_compute_ahead_is_limited(make: Make, engine: Larger) -> None:
    completer = make(replace(MINE, prefetch_seconds_per_minute=0))
    completer.prepare(Upcoming(request()), NEVER)
    idle(completer)
    assert "prepare" not in engine.called
    engine.waits = True
    completer.allow(HANG)
    completer.prepare(Upcoming(request()), NEVER)
    assert engine.began.wait(HANG)
    completer.allow(0)
    assert engine.stopped.wait(HANG)


def test_a_request_ends_computing_ahead(make: Make, engine: Larger) -> None:
    completer, engine.waits = make(replace(MINE, prefetch_seconds_per_minute=int(HANG))), True
    completer.prepare(Upcoming(request()), NEVER)
    assert engine.began.wait(HANG)
    engine.waits = False
    assert better(completer.complete(request(), NEVER)).text == "m(values, start)"
    assert engine.stopped.is_set()


def test_a_place_is_computed_once_the_model_is_free(
    make: Make, engine: Larger, monkeypatch: pytest.MonkeyPatch
) -> None:
    completer, free = make(replace(MINE, prefetch_seconds_per_minute=int(HANG))), threading.Event()

    def work(cancel: Cancel) -> None:
        engine.began.set()
        assert free.wait(HANG)

    monkeypatch.setattr(engine, "_wait", work)
    first = completer.complete(request(), NEVER)
    assert engine.began.wait(HANG)
    completer.prepare(Upcoming(request()), NEVER)
    assert "prepare" not in engine.called
    free.set()
    assert better(first).text == "m(values, start)"
    idle(completer)
    assert "prepare" in engine.called


def test_embedded_models_stay_as_they_are_whatever_is_asked_of_the_larger() -> None:
    asked = replace(MINE, model="large", weights="int4", model_languages=("go",))
    assert of_embedded(asked).weights == "auto" and of_embedded(asked).model == ""


def test_clients_keep_their_documents_apart_and_the_model_goes_with_the_last(
    make: Make, larger: LargerModel, engine: Larger
) -> None:
    one, two = make(name="1 "), make(name="2 ")
    for completer in (one, two):
        assert better(completer.complete(request(), NEVER)).text == "m(values, start)"
    assert {job.frame.document for job in engine.jobs} == {f"1 {URI}", f"2 {URI}"}
    one.close(HANG)
    assert larger.clients == {"2 "} and "close" not in engine.called
    assert better(two.complete(request(f"\n{TEXT}"), NEVER)).text == "m(values, start)"
    two.close(HANG)
    assert larger.clients == set()


def test_until_it_is_open_it_has_no_languages_and_no_name(model: LoadedModel, engine: Larger) -> None:
    opening = threading.Event()

    def load(progress: object) -> OpenedModel:
        assert opening.wait(HANG)
        return OpenedModel(model, engine, BUDGET, CAPACITY)

    larger = LargerModel("larger", load)
    documents = LargerDocuments(larger, MINE, "1 ")
    opened = documents.open(lambda *_: None)
    assert (documents.languages, documents.describe()["larger"], documents.summaries()) == ((), "", [])
    opening.set()
    opened.result(HANG)
    assert (documents.languages, documents.describe()["larger"]) == (("*",), "larger")
    documents.close(HANG, None)
    larger.close(HANG)


def test_a_model_that_could_not_be_opened_is_tried_again(
    model: LoadedModel, engine: Larger, caplog: pytest.LogCaptureFixture
) -> None:
    causes = ["it is damaged", ""]

    def load(progress: object) -> OpenedModel:
        if cause := causes.pop(0):
            raise ModelError(cause)
        return OpenedModel(model, engine, BUDGET, CAPACITY)

    larger = LargerModel("larger", load)
    documents = LargerDocuments(larger, MINE, "1 ")
    with pytest.raises(ModelError):
        documents.open(lambda *_: None).result(HANG)
    assert documents.languages == () and larger.opened is None
    assert larger.clients == {"1 "} and larger.working == set()  # it takes no share of the memory
    assert [each.getMessage() for each in caplog.records] == ["the model in larger cannot be used: it is damaged"]
    documents.open(lambda *_: None).result(HANG)
    assert documents.languages == ("*",) and larger.working == {"1 "}
    documents.close(HANG, None)
    larger.close(HANG)


@pytest.fixture
def speaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint that counts as larger."""
    monkeypatch.setattr(threads, "LARGE", 100_000)
    return speaking(tmp_path / "speaking", "    return int(name)\n")


def test_clients_with_and_without_it_share_what_they_have_in_common(speaker: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, cache_folder=str(tmp_path / "cache"))
    models, both = SharedModels(), replace(settings, model=str(speaker))
    clients = [models.load(each, lambda *_: None) for each in (both, both, settings)]
    assert [each["clients"] for each in models.describe()] == [3, 2], "one embedded model, one larger one"
    for each in clients:
        each.close(HANG)
    models.close_unused(HANG)
    assert models.describe() == []


def test_settings_that_cannot_be_met_leave_no_client_behind(speaker: Path, tmp_path: Path) -> None:
    models = SharedModels()
    with pytest.raises(ModelError):
        models.load(replace(MINE, model=str(speaker), max_new_tokens=1 << 20), lambda *_: None)
    models.close_unused(HANG)
    assert models.describe() == []
