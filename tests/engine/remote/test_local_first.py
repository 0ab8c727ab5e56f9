"""This machine answers at once; a server's answer wins if it is surer, and whatever becomes of it harms nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efim_ls.completion.answerers import elsewhere
from efim_ls.completion.completer import Completer
from efim_ls.completion.models.open import OpenedModel, RemoteModel
from efim_ls.request import Answer, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER, Cancel
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.engine import GenerateJob, Generation, SavedFrame
from model_runtime.engine.output import Output
from model_runtime.ids import Ids
from model_runtime.loading.load import LoadedModel
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.engine import RemoteEngine
from model_runtime.remote.setting import RemoteOptions
from tests.engine.completion.test_complete import BUDGET, CAPACITY, SETTINGS, loaded_from
from tests.engine.decoding.test_other_engine import SURE, FarEngine
from tests.engine.doubles import counts_of
from tests.engine.remote.fakes import FakeVllm, serving
from tests.waiting import HANG

TEXT = "def total(values, start, local):\n    return su"
LOCAL, REMOTE = "m(local)\n", "m(values, start)\n"  # what is said after TEXT; the local one is 0.9 sure of each token
URI = "file:///project/sums.py"
LONGER = replace(SETTINGS, max_new_tokens=60)


class Here(FarEngine):
    """An engine of this machine, which is not quite sure of what it says."""

    def generate(self, job: GenerateJob, cancel: Cancel) -> Generation:
        made, output = super().generate(job, cancel), Output(self._sampler, job.prompt.stub, job.rule)
        for each in made.choices:
            chances = np.array([1 - SURE, SURE], dtype=np.float32)
            output.append(each._replace(likely=np.array([0, each.token], dtype=np.int32), chances=chances))
        return replace(made, likelihood=output.likelihood, confidence=output.confidence)

    def save(self, document: str, frames: Sequence[SavedFrame], cancel: Cancel) -> bool:
        return True


class Saying(FakeVllm):
    """A server whose model says a line, as sure of each token as it is told."""

    line, sure = "    return su" + REMOTE, 0.99

    def chances(self, ids: Ids) -> tuple[Any, int]:
        """The chances of the next token of the line, after as much of it as the prompt ends with."""
        before = self.tokenizer.decode(ids)
        said = next(n for n in range(len(self.line), -1, -1) if before.endswith(self.line[:n]))
        rest = self.tokenizer.encode(self.line[said:] or "\n")
        found = np.full(self.tokenizer.vocab, 1e-9)
        found[int(rest[0])], found[0] = self.sure, 1 - self.sure
        return found, 0


@pytest.fixture(scope="module")
def model(folder: Path) -> LoadedModel:
    return loaded_from(folder)


@pytest.fixture
def server(surer: AnyDecoder, tokenizer: Tokenizer) -> Iterator[Saying]:
    with serving(Saying(surer, tokenizer)) as served:
        assert isinstance(served, Saying)
        yield served


Make = Callable[..., Completer]


@pytest.fixture
def make(model: LoadedModel, server: Saying) -> Iterator[Make]:
    with ExitStack() as made:

        def make_one(local: str = LOCAL, settings: Settings = LONGER, **options: Any) -> Completer:
            options = {"url": server.url, "wait_seconds": HANG, **options}
            settings = replace(settings, engine=RemoteOptions(**options))
            engine = Here(model.tokenizer, local)
            engine.is_far = False
            server_engine = RemoteEngine(settings.engine, model.tokenizer, CAPACITY)
            far = RemoteModel(model, server_engine, BUDGET, CAPACITY)
            opened = OpenedModel(model, engine, BUDGET, CAPACITY, remote=far)
            completer = Completer.over(opened, settings)
            made.callback(completer.close, 0)
            return completer

        yield make_one


def request(text: str = TEXT, *, uri: str = URI, explicit: bool = False, language: str = "python") -> Request:
    return Request(uri, text, len(text), explicit, language=language)


def better(answer: Answer) -> Answer:
    assert answer.better is not None
    found = answer.better.result(HANG)
    answer.better.is_shown = found != answer
    return found


def test_this_machine_answers_at_once_and_the_surer_answer_wins(make: Make, server: Saying) -> None:
    completer = make()
    server.go.clear()
    answer = completer.complete(request(), NEVER)
    assert answer.text == "m(local)" and answer.better and not answer.better.done()
    server.go.set()
    found = better(answer)
    assert (found.text, found.source) == ("m(values, start)", f"from the model on {completer.describe()['remote']}")
    assert found.costs.recomputed > 0 and found.confidence and answer.confidence
    assert found.confidence > answer.confidence


def test_an_answer_that_is_less_sure_changes_nothing(make: Make, server: Saying) -> None:
    completer, server.sure = make(), 0.5
    answer = completer.complete(request(), NEVER)
    assert better(answer).text == "m(local)"
    assert completer.complete(request(TEXT + "m(lo"), NEVER).text == "cal)"


def test_where_this_machine_says_nothing_the_other_does(make: Make) -> None:
    completer = make(local="")
    answer = completer.complete(request(), NEVER)
    assert (answer.text, better(answer).text) == ("", "m(values, start)")


def test_a_late_answer_is_shown_at_the_next_key(make: Make, server: Saying) -> None:
    completer = make()
    answer = completer.complete(request(), NEVER)
    assert better(answer).text == "m(values, start)"
    asked = len(server.bodies)
    typed = completer.complete(request(TEXT + "m(val"), NEVER)
    assert (typed.text, typed.better, len(server.bodies)) == ("ues, start)", None, asked)
    again = completer.complete(request(), NEVER)
    assert again.text == "m(values, start)", "the same place, asked again"


def test_an_answer_stands_though_the_repository_was_read_meanwhile(make: Make, tokenizer: Tokenizer) -> None:
    completer = make()
    assert better(completer.complete(request(), NEVER)).text == "m(values, start)"
    read = replace(request(), counts=counts_of(tokenizer, "total = 1\n").without(()))
    assert completer.complete(read, NEVER).text == "m(values, start)"


def test_a_suggestion_that_is_typed_through_stays(make: Make, server: Saying) -> None:
    server.line = "    return sum(local, start)\n"
    completer = make()
    answer = completer.complete(request(), NEVER)
    assert better(answer).text == "m(local, start)"
    assert completer.complete(request(TEXT + "m(lo"), NEVER).text == "cal, start)", "it came before a key"
    server.go.clear()
    other = TEXT.replace("return", "start =")
    server.line = "    start = sum(local, start)\n"
    arriving, shown = (completer.complete(request(other), NEVER) for _ in range(2))
    assert shown.better is not None and shown.better.cancel(), "its time is over"
    first = completer.complete(request(other + "m"), NEVER)
    server.go.set()
    assert arriving.better and arriving.better.result(HANG).text == "m(local, start)"
    second = completer.complete(request(other + "m("), NEVER)
    assert (first.text, first.better, second.text) == ("(local)", None, "local)")


def test_what_is_under_way_goes_on_while_its_place_is_typed_on(make: Make, server: Saying) -> None:
    completer = make()
    server.go.clear()
    first = completer.complete(request(), NEVER)
    assert server.came.wait(HANG)
    second = completer.complete(request(TEXT + "m(v"), NEVER)
    server.go.set()
    assert better(first).text == "m(values, start)"
    assert better(second).text == "alues, start)"
    assert not server.left.is_set()


def test_another_place_ends_what_is_under_way(make: Make, server: Saying) -> None:
    completer = make()
    better(completer.complete(request(), NEVER))
    server.pause_after = 1
    first = completer.complete(request(explicit=True), NEVER)
    assert server.paused.wait(HANG)
    server.pause_after = None
    completer.complete(request("import o"), NEVER)
    assert better(first).text == first.text
    server.go.set()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that pauses are measured in."""
    time = [100.0]
    monkeypatch.setattr(elsewhere, "monotonic", lambda: time[0])
    return time


def test_a_server_that_is_gone_is_told_once_and_found_again(
    make: Make, server: Saying, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    completer = make()
    server.status = 500
    first = completer.complete(request(), NEVER)
    assert (first.text, better(first).text) == ("m(local)", "m(local)")
    asked = len(server.asked)
    for line in ("start = su", "local = su"):
        answer = completer.complete(request(TEXT.replace("return su", line)), NEVER)
        assert (answer.text, answer.better) == ("m(local)", None), "nobody waits for it"
    assert len(server.asked) == asked, "it is left alone for a while"
    now[0] += elsewhere.FIRST_PAUSE
    again = completer.complete(request(TEXT.replace("return", "values =")), NEVER)
    assert better(again).text == again.text and len(server.asked) > asked
    said = "answers with the status 500"
    assert [said in each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == [True]
    assert said in (completer.notice("python") or "")
    server.status = 200
    now[0] += 2 * elsewhere.FIRST_PAUSE
    assert better(completer.complete(request(f"\n{TEXT}"), NEVER)).text == "m(values, start)"
    assert completer.notice("python") is None


def test_the_pause_after_failures_grows_to_a_bound(make: Make, server: Saying, now: list[float]) -> None:
    completer, server.status = make(), 503
    for number, pause in enumerate((1, 2, 4, 8, 16, 32, 60, 60)):
        text = f"{'#' * number}\n{TEXT}"
        better(completer.complete(request(text), NEVER))
        now[0] += pause - 0.01
        assert completer.complete(request(f" {text}"), NEVER).better is None
        now[0] += 0.01


def test_nobody_waits_for_a_server_that_hangs(make: Make, server: Saying, now: list[float]) -> None:
    completer = make(wait_seconds=0.3)
    server.go.clear()
    first = completer.complete(request(), NEVER)
    assert first.better is not None and server.came.wait(HANG)
    now[0] += 0.4
    assert completer.complete(request(), NEVER).better is None
    second = completer.complete(request(TEXT + "x"), NEVER)
    assert (second.text, second.better) == ("m(local)", None)
    server.go.set()
    assert better(first).text == "m(values, start)"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("generated/\nlocal_*.py\n")
    for name in ("sums.py", "local_keys.py", "secrets.py", "generated/sums.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("name", ["local_keys.py", "generated/sums.py", "secrets.py", "private/x.py", "untitled:x"])
def test_private_text_is_not_sent(make: Make, server: Saying, project: Path, name: str) -> None:
    uri = name if ":" in name else (project / name).as_uri()
    settings = replace(LONGER, private_files=("*/private/*",))
    completer = make(settings=settings)
    for explicit in (False, True):
        answer = completer.complete(request(uri=uri, explicit=explicit), NEVER)
        assert (answer.text, better(answer).text) == ("m(local)", "m(local)")
    completer.prepare(Upcoming(request(uri=uri)), NEVER)
    assert better(completer.complete(request(uri=(project / "sums.py").as_uri()), NEVER)).text == "m(values, start)"
    assert TEXT not in str(server.asked[:1])
    assert completer.notice("python") is None
    asked = len(server.bodies)
    allowing = make(settings=settings, private=True)
    assert better(allowing.complete(request(uri=uri), NEVER)).text == "m(values, start)"
    assert len(server.bodies) > asked


def test_private_text_reaches_no_socket(make: Make, server: Saying, project: Path) -> None:
    completer = make()
    answer = completer.complete(request(uri=(project / "local_keys.py").as_uri()), NEVER)
    assert better(answer).text == "m(local)" and server.asked == []


def test_other_texts_stay_here(make: Make, server: Saying) -> None:
    completer = make()
    better(completer.complete(replace(request(), others=("password = 'hunter2'\n",)), NEVER))
    [body, *_] = server.bodies
    assert "hunter2" not in server.tokenizer.decode(np.array(body["prompt"], dtype=np.int32))


def test_in_other_languages_phrases_come_first(make: Make, server: Saying) -> None:
    completer = make(settings=replace(LONGER, model_languages=()))
    answer = completer.complete(request(language="go"), NEVER)
    assert better(answer).text == "m(values, start)"


def test_a_closed_document_is_forgotten_and_all_ends(make: Make, server: Saying) -> None:
    completer = make()
    server.go.clear()
    answer = completer.complete(request(), NEVER)
    assert server.came.wait(HANG)
    completer.close_document(URI, save=False)
    completer.forget_suggestions()
    completer.close(0)
    assert better(answer).text == "m(local)"
