"""Requests of one document that meet: who waits, who is superseded, and who shares an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from efim_ls.request import Ahead, Answer, BetterAnswer, Costs, Milliseconds, Request, Upcoming
from efim_ls.session.prefetch import SENT
from efim_ls.session.requests import PAUSE, Debounce
from efim_ls.session.session import Session
from efim_ls.settings import Settings
from efim_ls.text.document import Change
from model_runtime.cancel import Cancel
from model_runtime.prompt.context import ContextBudget
from tests.waiting import HANG, Clock, eventually, happened, loop_at_rest

COSTS = Costs(recomputed=5, new_tokens=5, passes=4, ms=Milliseconds(prefill=30.0, decode=20.0, total=50.0))
FOREVER = HANG  # no test waits so long unless it is to fail


class Fake:
    """A completer that answers with the request's text, once the gate is open."""

    tokenizers = None

    def __init__(self) -> None:
        self.began, self.gate, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.asked: list[Request] = []
        self.prepared: list[Upcoming] = []
        self.costs, self.at_rest = COSTS, False
        self.line = ""  # what it expects the whole text to become, if anything
        self.better: BetterAnswer | None = None  # what comes from another machine
        self.gate.set()

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        self.asked.append(request)
        self.began.set()
        eventually(lambda: self.gate.is_set() or cancel(), "neither the gate is opened nor the job stopped")
        if request.text == "crash":
            raise ValueError
        if cancel():
            self.stopped.set()
            return Answer("", Costs(recomputed=1), "superseded")
        said = self.line.removeprefix(request.text) if self.line else f"after {request.text}"
        return Answer(said, self.costs, at_rest=self.at_rest, better=self.better)

    @property
    def context_budget(self) -> ContextBudget:
        return ()

    def answering(self) -> AbstractContextManager[None]:
        return nullcontext()

    def open_elsewhere(self, progress: object) -> None: ...

    def allow(self, seconds: float) -> None: ...

    def prepare(self, place: Upcoming, cancel: Cancel) -> bool:
        self.prepared.append(place)
        return not cancel()

    def notice(self, language: str) -> str | None:
        return None

    @property
    def ahead(self) -> Ahead:
        return Ahead(0, 0)

    def explain(self, request: Request, answered: Answer | None) -> dict[str, object]:
        return {}

    def close_document(self, uri: str, save: bool) -> None:
        pass

    def describe(self) -> dict[str, object]:
        return {}


class Fixed(Debounce):
    """Lets requests wait so many seconds each, in turn, the last ever after; notes what it is told."""

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self._seconds, self.requests, self.steps = list(seconds), list[float](), list[tuple[float, float]]()
        self.overtakes = list[bool]()

    def note_request(self, now: float, overtakes: bool) -> None:
        self.requests.append(now)
        self.overtakes.append(overtakes)

    def note_step(self, ms: float, first_ms: float) -> None:
        self.steps.append((ms, first_ms))

    def delay(self) -> float:
        return self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The event loop's time."""
    loop = asyncio.get_running_loop()
    clock = Clock(loop.time())
    monkeypatch.setattr(loop, "time", clock)
    return clock


async def go_on(clock: Clock, seconds: float) -> None:
    """Let time pass, and all that waited for it be done."""
    clock.now += seconds
    await loop_at_rest()


@pytest.fixture
def model() -> Fake:
    return Fake()


@pytest.fixture
async def session(model) -> AsyncIterator[Session]:
    session = Session(lambda settings, progress: model)
    session.requests.debounce = Fixed(0.0)
    await session.load(lambda message, percent: None)
    yield session
    assert session.engine.close(HANG), "a job of the test is still running"


def asked(text: str, uri: str = "a", **more: Any) -> Request:
    return Request(uri, text, len(text), **more)


async def ask(session: Session, *requests: Request) -> list[asyncio.Task[Answer]]:
    """Ask in this order, each at once."""
    tasks = [asyncio.create_task(session.requests.complete(request)) for request in requests]
    await loop_at_rest()
    return tasks


async def texts(*tasks: asyncio.Future[Answer]) -> list[str]:
    return [answer.text for answer in await asyncio.gather(*tasks)]


async def cancel(task: asyncio.Task[Answer]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def spent(session: Session) -> Any:
    """What the tokens of all work so far cost."""
    await session.engine.settled()
    return session.counters.report()["tokens"]


async def test_a_request_is_answered_after_its_wait(session, model) -> None:
    session.requests.debounce = Fixed(0.001)
    assert (await session.requests.complete(asked("x"))).text == "after x"


async def test_while_a_request_waits_no_work_is_begun(session, model) -> None:
    session.requests.debounce = Fixed(FOREVER)
    [waiting] = await ask(session, asked("x"))
    assert (await session.requests.complete(asked("y", uri="b", explicit=True))).text == "after y"
    assert [request.text for request in model.asked] == ["y"]
    assert not waiting.done()
    await cancel(waiting)
    await session.engine.settled()
    assert session.counters.answered == {"suggestion": 1, "cancelled": 1}


async def test_of_a_burst_only_the_last_is_worked_on(session, model) -> None:
    session.requests.debounce = Fixed(FOREVER, FOREVER, FOREVER, 0.001)
    tasks = await ask(session, *map(asked, ("f", "fo", "foo", "foo(")))
    assert await texts(*tasks) == ["", "", "", "after foo("]
    assert [request.text for request in model.asked] == ["foo("]
    assert session.counters.answered == {"superseded": 3, "suggestion": 1}


async def test_a_newer_request_supersedes_the_waiting_one_though_it_waits_itself(session) -> None:
    session.requests.debounce = Fixed(FOREVER)
    older, newer = await ask(session, asked("x"), asked("xy"))
    assert (await older).text == ""
    assert not newer.done()
    await cancel(newer)


async def test_a_newer_request_supersedes_work_under_way_before_its_own_wait_is_over(session, model) -> None:
    session.requests.debounce = Fixed(0.0, FOREVER)
    model.gate.clear()
    [older] = await ask(session, asked("x"))
    await happened(model.began)
    [newer] = await ask(session, asked("xy"))
    assert (await older).text == ""
    await happened(model.stopped)
    await cancel(newer)


async def test_an_invocation_never_waits_and_supersedes_the_waiting_of_its_document_only(session, model) -> None:
    session.requests.debounce = Fixed(FOREVER)
    ours, others = await ask(session, asked("x"), asked("y", uri="b"))
    assert (await session.requests.complete(asked("x", explicit=True))).text == "after x"
    assert (await ours).text == ""
    assert not others.done()
    assert [request.explicit for request in model.asked] == [True]
    await cancel(others)


async def test_a_closed_documents_request_does_not_wait_any_longer(session) -> None:
    session.requests.debounce = Fixed(FOREVER)
    [waiting] = await ask(session, asked("x"))
    session.close_document("a")
    assert (await waiting).text == ""
    assert session.counters.answered == {"superseded": 1}


async def test_a_reopened_document_shares_no_answer(session) -> None:
    session.requests.debounce = Fixed(FOREVER, 0.0)
    [waiting] = await ask(session, asked("x"))
    session.close_document("a")
    assert (await session.requests.complete(asked("x"))).text == "after x"
    assert (await waiting).text == ""


async def test_identical_requests_are_one_piece_of_work(session, model) -> None:
    model.gate.clear()
    tasks = await ask(session, asked("x"), asked("x"), asked("x"))
    model.gate.set()
    assert await texts(*tasks) == ["after x"] * 3
    assert len(model.asked) == 1
    assert await spent(session) == {"recomputed": 5, "reused": 0}
    assert session.counters.answered == {"suggestion": 3}


async def test_identical_requests_that_wait_are_one_too(session, model) -> None:
    session.requests.debounce = Fixed(0.001, FOREVER)
    assert await texts(*await ask(session, asked("x"), asked("x"))) == ["after x"] * 2
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(asked("xy"), id="text"),
        pytest.param(Request("a", "x", 0), id="cursor"),
        pytest.param(asked("x", explicit=True), id="explicit"),
        pytest.param(asked("x", others=("y",)), id="others"),
    ],
)
async def test_requests_that_differ_are_not_one(session, model, other: Request) -> None:
    model.gate.clear()
    first, second = await ask(session, asked("x"), other)
    model.gate.set()
    assert await texts(first, second) == ["", f"after {other.text}"]


async def test_documents_with_the_same_text_share_nothing(session, model) -> None:
    model.gate.clear()
    tasks = await ask(session, *(asked("x", uri=uri) for uri in "abab"))
    model.gate.set()
    assert await texts(*tasks) == ["after x"] * 4
    assert [request.uri for request in model.asked] == ["a", "b"]


@pytest.mark.parametrize("given_up", [0, 1])
async def test_cancelling_one_of_two_leaves_the_other(session, model, given_up: int) -> None:
    model.gate.clear()
    tasks = await ask(session, asked("x"), asked("x"))
    await happened(model.began)
    await cancel(tasks.pop(given_up))
    model.gate.set()
    assert await texts(tasks[0]) == ["after x"]
    assert len(model.asked) == 1
    assert session.counters.answered == {"cancelled": 1, "suggestion": 1}


async def test_cancelling_both_stops_the_work(session, model) -> None:
    model.gate.clear()
    tasks = await ask(session, asked("x"), asked("x"))
    await happened(model.began)
    for task in tasks:
        await cancel(task)
    await happened(model.stopped)
    assert session.counters.answered == {"cancelled": 2}
    assert await spent(session) == {"recomputed": 1, "reused": 0}


async def test_a_request_after_both_were_cancelled_is_computed(session, model) -> None:
    session.requests.debounce = Fixed(FOREVER, 0.0)
    for task in await ask(session, asked("x"), asked("x")):
        await cancel(task)
    assert (await session.requests.complete(asked("x"))).text == "after x"


async def test_a_newer_request_supersedes_all_who_share(session) -> None:
    session.requests.debounce = Fixed(FOREVER, 0.0)
    tasks = await ask(session, asked("x"), asked("x"), asked("xy"))
    assert await texts(*tasks) == ["", "", "after xy"]
    assert session.counters.answered == {"superseded": 2, "suggestion": 1}


async def test_an_answer_is_not_kept_for_later(session, model) -> None:
    for _ in range(2):
        assert (await session.requests.complete(asked("x"))).text == "after x"
    assert len(model.asked) == 2


async def test_all_who_share_hear_of_a_failure_and_it_is_not_kept(session, model, caplog) -> None:
    tasks = await ask(session, asked("crash"), asked("crash"))
    assert await texts(*tasks) == ["", ""]
    assert (await session.requests.complete(asked("crash"))).text == ""
    assert len(model.asked) == 2
    assert session.counters.answered == {"error": 3}
    assert {record.getMessage() for record in caplog.records} == {"a completion failed"}


async def test_the_rhythm_is_that_of_automatic_requests_each_counted_once(session, clock) -> None:
    await asyncio.gather(*await ask(session, asked("x"), asked("x"), asked("x", explicit=True)))
    assert session.requests.debounce.requests == [clock.now]


async def test_the_debounce_hears_which_requests_overtake_their_documents_last_one(session, model) -> None:
    await session.requests.complete(asked("x"))
    model.gate.clear()
    older, newer, other = await ask(session, asked("xy"), asked("xyz"), asked("z", uri="b"))
    model.gate.set()
    await asyncio.gather(older, newer, other)
    assert session.requests.debounce.overtakes == [False, False, True, False]


async def test_the_debounce_hears_what_steps_cost_where_there_were_any(session, model, caplog) -> None:
    await session.requests.complete(asked("x"))
    model.costs = Costs(new_tokens=1, ms=Milliseconds(prefill=1.0))
    await session.requests.complete(asked("xy", explicit=True))
    await session.engine.settled()
    assert session.requests.debounce.steps == [(5.0, 30.0)]
    assert caplog.records == []


@pytest.mark.parametrize("end", [lambda task: task, lambda task: task.cancel()], ids=["answered", "cancelled"])
async def test_nothing_is_kept_of_requests_that_are_over(session, end: Callable[[asyncio.Task[Answer]], Any]) -> None:
    tasks = await ask(session, *(asked("x" * n, uri=str(n % 3)) for n in range(300)))
    for task in tasks:
        end(task)
    await asyncio.gather(*tasks, return_exceptions=True)
    await session.engine.settled()
    assert session.requests._under_way == {}
    assert session.engine._thread._tickets == {}


async def test_a_slow_machine_waits_by_itself(session, model, clock) -> None:
    """The parts together: after five answers of half a second each and a rhythm, a burst waits for its last key."""
    session.requests.debounce = Debounce()
    model.costs = Costs(passes=1, ms=Milliseconds(prefill=500.0))
    for n in range(6):
        await session.requests.complete(asked("x" * n))
        clock.now += 0.2
    await session.engine.settled()
    assert session.requests.debounce.delay() == 0
    model.gate.clear()
    first, last = await ask(session, asked("first"), asked("last"))
    model.gate.set()
    assert not last.done()
    clock.now += session.requests.debounce.delay()
    assert await texts(first, last) == ["", "after last"]


# Answers for somebody who has stopped typing


async def asked_at_rest(session: Session, clock: Clock, text: str = "x") -> asyncio.Task[Answer]:
    """Ask at the end of a document, until the model has answered."""
    if document := session.documents.get("a"):
        session.edit(document, [Change(text)])
    else:
        document = session.open("a", "python", text)
    [waiting] = await ask(session, session.request_at(document, len(text), explicit=False))
    await session.engine.settled()
    await go_on(clock, 0)
    return waiting


@pytest.fixture
def unsure(model: Fake) -> None:
    model.at_rest = True


@pytest.mark.usefixtures("unsure")
async def test_what_is_unsure_is_shown_once_nobody_has_typed_for_a_while(session, clock) -> None:
    waiting = await asked_at_rest(session, clock)
    await go_on(clock, 0.9 * PAUSE)
    assert not waiting.done()
    await go_on(clock, 0.2 * PAUSE)
    assert waiting.done() and (await waiting).text == "after x"
    assert session.counters.answered == {"suggestion": 1}


@pytest.mark.usefixtures("unsure")
async def test_what_is_unsure_is_not_shown_while_keys_go_on(session, clock) -> None:
    shown = list[asyncio.Task[Answer]]()
    for typed in ("x", "xy", "xyz"):
        shown.append(await asked_at_rest(session, clock, typed))
        await go_on(clock, 0.9 * PAUSE)
    assert [each.done() for each in shown] == [True, True, False]
    await go_on(clock, 0.2 * PAUSE)
    assert await texts(*shown) == ["", "", "after xyz"]
    assert session.counters.answered == {"superseded": 2, "suggestion": 1}


async def test_what_is_sure_waits_for_no_pause(session, clock) -> None:
    assert (await (await asked_at_rest(session, clock))).text == "after x"


@pytest.mark.usefixtures("unsure")
async def test_what_is_unsure_is_not_shown_in_a_document_that_was_closed(session, clock) -> None:
    waiting = await asked_at_rest(session, clock)
    session.close_document("a")
    await go_on(clock, 1.1 * PAUSE)
    assert (await waiting).text == ""
    assert session.counters.answered == {"superseded": 1}


@pytest.mark.usefixtures("unsure")
async def test_who_waits_for_a_pause_can_be_cancelled(session, clock) -> None:
    await cancel(await asked_at_rest(session, clock))
    assert session.counters.answered == {"cancelled": 1}


async def test_a_better_answer_that_comes_in_time_is_returned(session, model) -> None:
    session.requests.patience, model.better = FOREVER, BetterAnswer()
    [waiting] = await ask(session, asked("x"))
    await session.engine.run("after it", lambda _: None)
    assert not waiting.done()
    model.better.set_result(Answer("better", Costs(recomputed=7)))
    assert (await waiting).text == "better"
    assert await spent(session) == {"recomputed": 12, "reused": 0}
    assert session.counters.answered == {"suggestion": 1}


async def test_a_better_answer_that_does_not_come_in_time_is_not_waited_for(session, model) -> None:
    session.requests.patience, model.better = 0.0, BetterAnswer()
    assert (await session.requests.complete(asked("x"))).text == "after x"
    assert model.better.cancelled()


async def test_a_newer_request_ends_the_wait_for_a_better_answer(session, model) -> None:
    session.requests.patience, model.better = FOREVER, BetterAnswer()
    [waiting] = await ask(session, asked("x"))
    await session.engine.run("after it", lambda _: None)
    never, model.better = model.better, None
    assert (await session.requests.complete(asked("xy"))).text == "after xy"
    assert (await waiting).reason == "superseded" and never.cancelled()


async def test_equal_requests_wait_for_one_better_answer(session, model) -> None:
    session.requests.patience, model.better = FOREVER, BetterAnswer()
    tasks = await ask(session, asked("x"), asked("x"))
    await session.engine.run("after it", lambda _: None)
    tasks += await ask(session, asked("x"))
    model.better.set_result(Answer("better"))
    assert await texts(*tasks) == ["better"] * 3 and len(model.asked) == 1


async def test_a_better_answer_that_is_given_up_leaves_the_one_of_this_machine(session, model) -> None:
    session.requests.patience, model.better = FOREVER, BetterAnswer()
    [waiting] = await ask(session, asked("x"))
    model.better.cancel()
    assert (await waiting).text == "after x"


async def test_an_answer_that_no_other_is_better_than_is_counted_once(session, model) -> None:
    session.requests.patience, model.better = FOREVER, BetterAnswer()
    model.better.set_result(Answer("after x", COSTS))
    assert (await session.requests.complete(asked("x"))).text == "after x"
    assert await spent(session) == {"recomputed": 5, "reused": 0}


def told(session) -> list[str]:
    said = list[str]()
    session.requests.patience, session.requests.improved = FOREVER, said.append
    return said


async def test_who_can_be_told_of_a_better_answer_gets_the_first_at_once(session, model) -> None:
    said, model.better = told(session), BetterAnswer()
    session.sync("a", "python", "x")
    assert (await session.requests.complete(asked("x"))).text == "after x"
    assert said == []
    model.better.set_result(Answer("better", Costs(recomputed=7)))
    await session.requests.improving
    assert said == ["a"] and not model.better.is_shown, "it is shown once it is asked for"
    assert await spent(session) == {"recomputed": 12, "reused": 0}
    assert session.counters.answered == {"suggestion": 1}


async def test_nobody_is_told_of_an_answer_that_is_no_better_or_late(session, model) -> None:
    said, model.better = told(session), BetterAnswer()
    model.better.set_result(Answer("after x", COSTS))
    await session.requests.complete(asked("x"))
    await session.requests.improving
    session.requests.patience, model.better = 0.0, BetterAnswer()
    await session.requests.complete(asked("xy"))
    await session.requests.improving
    assert said == [] and model.better.cancelled()


async def test_nobody_is_told_of_an_answer_to_what_was_there_before(session, model) -> None:
    said, model.better = told(session), BetterAnswer()
    session.sync("a", "python", "x")
    await session.requests.complete(asked("x"))
    session.sync("a", "python", "xy")
    model.better.set_result(Answer("better"))
    await session.requests.improving
    assert said == []


async def test_nobody_is_told_of_an_answer_that_reads_the_same(session, model) -> None:
    said, model.better = told(session), BetterAnswer()
    session.sync("a", "python", "x")
    model.better.set_result(Answer("after x", Costs(recomputed=7), confidence=0.9))
    await session.requests.complete(asked("x"))
    await session.requests.improving
    assert said == [] and await spent(session) == {"recomputed": 12, "reused": 0}


async def test_the_next_place_is_prepared_once_the_answer_is_on_its_way(session, model, clock) -> None:
    session.engine.allow(60)
    document = session.open("a", "python", "x")
    document.prefetch_timer.cancel()
    assert (await session.requests.complete(asked("x"))).text == "after x"
    await session.engine.settled()
    assert model.prepared == []
    await go_on(clock, SENT)
    await session.engine.settled()
    assert [each.request.text for each in model.prepared] == ["xafter x"]


# Suggestions that wait as long as the user wants them to

WANTED = Settings(show_after_ms=1500)


async def test_a_new_suggestion_waits_as_long_as_the_user_wants(session, clock) -> None:
    session.configure(WANTED)
    waiting = await asked_at_rest(session, clock)
    await go_on(clock, 1.4)
    assert not waiting.done()
    await go_on(clock, 0.2)
    assert waiting.done() and (await waiting).text == "after x"


async def test_no_new_suggestion_is_shown_while_keys_go_on(session, clock, model) -> None:
    session.configure(WANTED)
    model.line = "xyzzy"
    shown = list[asyncio.Task[Answer]]()
    for typed in ("x", "xy", "xyz"):
        shown.append(await asked_at_rest(session, clock, typed))
        await go_on(clock, 1.4)
    await go_on(clock, 0.2)
    assert await texts(*shown) == ["", "", "zy"], "an answer that was never shown is not typed through"


async def test_a_suggestion_that_is_typed_through_stays(session, clock, model) -> None:
    session.configure(WANTED)
    model.line = "xyzzy"
    first = await asked_at_rest(session, clock, "x")
    await go_on(clock, 1.6)
    assert await texts(first) == ["yzzy"]
    for typed, left in (("xy", "zzy"), ("xyz", "zy")):
        rest = await asked_at_rest(session, clock, typed)
        assert rest.done() and (await rest).text == left
    model.line = "xyz or"
    other = await asked_at_rest(session, clock, "xyz ")
    assert not other.done(), "another suggestion is a new one"
    await cancel(other)


async def test_a_key_that_asks_waits_for_nothing(session, clock) -> None:
    session.configure(WANTED)
    document = session.open("a", "python", "x")
    assert (await session.requests.complete(session.request_at(document, 1, explicit=True))).text == "after x"


async def test_clients_that_wait_themselves_are_not_held_back(session, clock) -> None:
    session.configure(WANTED)
    session.requests.waits_for_rest = False
    assert (await (await asked_at_rest(session, clock))).text == "after x"
