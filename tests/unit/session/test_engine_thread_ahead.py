"""Work ahead of need: who goes first, what interrupts it, and how long it may go on."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Iterator

import pytest

from efim_ls.completion import idle_budget
from efim_ls.completion.idle_budget import IdleBudget
from efim_ls.session.engine_thread import EngineThread
from model_runtime.cancel import Cancel, Cancelled
from tests.waiting import HANG, Clock, eventually, happened, loop_at_rest, soon


class Ahead:
    """Work in so many pieces, each as long as nobody interrupts it, that says how often it was called."""

    def __init__(self, pieces: int) -> None:
        self.pieces, self.calls = pieces, 0
        self.began, self.ended = threading.Event(), threading.Event()

    def __call__(self, cancel: Cancel) -> bool:
        self.calls += 1
        if self.pieces == 0:
            return True
        self.began.set()
        eventually(cancel, "the work is not interrupted")
        self.pieces -= 1
        self.ended.set()
        return False


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(clock) -> Iterator[EngineThread]:
    engine = EngineThread(IdleBudget(10, clock))
    yield engine
    assert engine.close(HANG), "a job of the test is still running"


class Blocking:
    """A job of `run` that keeps the engine thread until it is told to go on."""

    def __init__(self, engine: EngineThread) -> None:
        self._began, self._gate = threading.Event(), threading.Event()
        self._answer = engine.run("blocking", lambda _: self._began.set() or self._gate.wait(HANG))

    async def begun(self) -> None:
        await happened(self._began)

    async def release(self) -> None:
        self._gate.set()
        await self._answer


async def test_idle_work_runs_on_the_idle_engine_thread(engine) -> None:
    threads = [await engine.run("a", lambda _: threading.current_thread())]
    engine.run_idle("b", lambda _: threads.append(threading.current_thread()) or True)
    await soon(engine.settled())
    assert len(threads) == 2 and len(set(threads)) == 1


async def test_jobs_run_before_idle_work(engine) -> None:
    ran, blocking = [], Blocking(engine)
    await blocking.begun()
    engine.run_idle("a", lambda _: ran.append("ahead") or True)
    for n in range(3):
        engine.run(n, lambda _, n=n: ran.append(n))
    await blocking.release()
    await soon(engine.settled())
    assert ran == [0, 1, 2, "ahead"]


async def test_what_was_queued_last_goes_first(engine) -> None:
    ran, blocking = [], Blocking(engine)
    await blocking.begun()
    for key in "abca":
        engine.run_idle(key, lambda _, key=key: ran.append(key) or True)
    await blocking.release()
    await soon(engine.settled())
    assert ran == ["a", "c", "b"]


async def test_a_job_interrupts_it_and_it_goes_on_afterwards(engine) -> None:
    work = Ahead(pieces=3)
    engine.run_idle("a", work)
    for n in range(3):
        await happened(work.began)
        work.began.clear()
        assert await engine.run("b", lambda _: (work.pieces, work.calls)) == (2 - n, n + 1)
    await soon(engine.settled())
    assert (work.pieces, work.calls) == (0, 4)


async def test_idle_keys_are_separate_from_job_keys(engine) -> None:
    work = Ahead(pieces=1)
    engine.run_idle("a", work)
    await happened(work.began)
    await engine.run("a", lambda _: None)
    engine.supersede("a")
    await soon(engine.settled())
    assert work.calls == 2


async def test_once_told_to_stop_it_is_told_so_whatever_follows(engine) -> None:
    told, (began, queued, asked, taken_back) = [], (threading.Event() for _ in range(4))

    def work(cancel: Cancel) -> bool:
        began.set()
        queued.wait(HANG)
        told.append(cancel())
        asked.set()
        taken_back.wait(HANG)
        told.append(cancel())
        return True

    engine.run_idle("a", work)
    await happened(began)
    job = engine.run("b", lambda _: None)
    queued.set()
    await happened(asked)
    engine.supersede("b")
    taken_back.set()
    await soon(engine.settled())
    assert isinstance(job.exception(), Cancelled)
    assert told == [True, True]


async def test_newer_work_with_its_key_takes_its_place(engine) -> None:
    older, newer = Ahead(pieces=1), Ahead(pieces=0)
    engine.run_idle("a", older)
    await happened(older.began)
    engine.run_idle("a", newer)
    await soon(engine.settled())
    assert (older.calls, newer.calls) == (1, 1)


async def test_work_that_comes_to_its_end_all_the_same_leaves_the_newer_in_place(engine) -> None:
    began, gate, newer = threading.Event(), threading.Event(), Ahead(pieces=0)
    engine.run_idle("a", lambda _: began.set() or gate.wait(HANG))
    await happened(began)
    engine.run_idle("a", newer)
    gate.set()
    await soon(engine.settled())
    assert newer.calls == 1


async def test_the_same_work_queued_again_while_under_way_is_done_again(engine) -> None:
    work = Ahead(pieces=1)
    engine.run_idle("a", work)
    await happened(work.began)
    engine.run_idle("a", work)
    await soon(engine.settled())
    assert work.calls == 2


async def test_work_with_another_key_does_not_interrupt_it(engine) -> None:
    began, gate, ran = threading.Event(), threading.Event(), []

    def work(cancel: Cancel) -> bool:
        began.set()
        gate.wait(HANG)
        ran.append(cancel())
        return True

    engine.run_idle("a", work)
    await happened(began)
    engine.run_idle("b", lambda _: ran.append("b") or True)
    gate.set()
    await soon(engine.settled())
    assert ran == [False, "b"]


async def test_dropped_while_under_way_it_is_told_to_stop_for_good(engine) -> None:
    work = Ahead(pieces=9)
    engine.run_idle("a", work)
    await happened(work.began)
    engine.drop_idle("a")
    await happened(work.ended)
    await soon(engine.settled())
    assert work.calls == 1


async def test_dropped_before_it_began_it_never_does(engine) -> None:
    ran, blocking = [], Blocking(engine)
    await blocking.begun()
    engine.run_idle("a", lambda _: ran.append("a") or True)
    engine.run_idle("b", lambda _: ran.append("b") or True)
    engine.drop_idle("a")
    engine.drop_idle("never queued")
    await blocking.release()
    await soon(engine.settled())
    assert ran == ["b"]


async def test_what_it_raises_is_logged_once_and_the_thread_goes_on(engine, caplog) -> None:
    ran = []

    def fail(_: Cancel) -> bool:
        ran.append("failing")
        raise SystemExit("enough")

    engine.run_idle("a", fail)
    await soon(engine.settled())
    engine.run_idle("b", lambda _: ran.append("b") or True)
    await soon(engine.settled())
    assert await engine.run("c", lambda _: "fine") == "fine"
    assert ran == ["failing", "b"]
    assert [(r.levelno, r.exc_info and r.exc_info[0]) for r in caplog.records] == [(logging.ERROR, SystemExit)]


async def test_closing_stops_it_and_nothing_is_done_afterwards(engine) -> None:
    work, ran = Ahead(pieces=9), []
    engine.run_idle("a", lambda _: ran.append("a") or True)
    engine.run_idle("b", work)
    await happened(work.began)
    engine.run_idle("c", lambda _: ran.append("c") or True)
    before = list(ran)
    assert engine.close(HANG)
    engine.run_idle("d", lambda _: ran.append("d") or True)
    await soon(engine.settled())
    assert (ran, work.calls) == (before, 1)
    assert len(engine._idle) == 0


async def test_no_idle_work_without_budget(engine) -> None:
    ran = threading.Event()
    engine.idle_budget.allow(0)
    engine.run_idle("a", lambda _: ran.set() or True)
    await soon(engine.settled())
    assert not ran.is_set()
    engine.idle_budget.allow(3)
    await happened(ran)


async def test_the_default_budget_is_none() -> None:
    engine, ran = EngineThread(), []
    engine.run_idle("a", lambda _: ran.append("a") or True)
    await soon(engine.settled())
    assert ran == []
    assert engine.close(HANG)


async def test_idle_work_stops_and_resumes_with_the_budget(engine, clock) -> None:
    ran, seconds = [], []

    def work(cancel: Cancel) -> bool:
        while not cancel():
            clock.now += 1
            seconds.append(clock.now)
        return len(seconds) == 20

    engine.run_idle("a", work)
    engine.run_idle("b", lambda _: ran.append("b") or True)
    await soon(engine.settled())
    assert (ran, len(seconds)) == (["b"], 10)
    assert await engine.run("c", lambda _: "not work ahead of need") == "not work ahead of need"
    assert len(seconds) == 10
    clock.now += 61
    engine.idle_budget.allow(10)  # makes the thread look at the clock
    await soon(engine.settled())
    assert len(seconds) == 20


async def test_lowering_the_budget_stops_idle_work(engine) -> None:
    work = Ahead(pieces=1)
    engine.run_idle("a", work)
    await happened(work.began)
    engine.idle_budget.allow(0)
    await soon(engine.settled())
    assert work.calls == 1
    engine.idle_budget.allow(3)
    await soon(engine.settled())
    assert work.calls == 2


async def test_the_thread_wakes_up_by_itself_when_the_window_frees(monkeypatch) -> None:
    monkeypatch.setattr(idle_budget, "WINDOW", 0.02)
    monkeypatch.setattr(idle_budget, "GRAIN", 0.01)
    engine, work = EngineThread(IdleBudget(1e-6)), Ahead(pieces=2)
    finished = threading.Event()
    engine.run_idle("a", lambda cancel: work(cancel) and (finished.set() or True))
    await happened(finished)
    assert work.calls == 3
    assert engine.close(HANG)


async def test_settled_waits_for_jobs(engine) -> None:
    blocking = Blocking(engine)
    await blocking.begun()
    queued, held = engine.run("a", lambda _: "a"), engine.run("b", lambda _: "b", after=0.001)
    settled = engine.settled()
    await blocking.release()
    await soon(settled)
    assert (queued.result(), held.result()) == ("a", "b")


async def test_settled_waits_for_work_under_way(engine) -> None:
    began, gate, ran = threading.Event(), threading.Event(), []
    engine.run_idle("a", lambda _: began.set() or gate.wait(HANG) and (ran.append("a") or True))
    await happened(began)
    settled = engine.settled()
    engine.run_idle("b", lambda _: ran.append("b") or True)
    assert not settled.done()
    gate.set()
    await soon(settled)
    assert ran == ["a", "b"]


async def test_a_cancelled_held_job_does_not_block_settling(engine) -> None:
    held = engine.run("a", lambda _: None, after=3600)
    settled = engine.settled()
    await engine.run("b", lambda _: None)
    await loop_at_rest()
    assert not settled.done()
    held.cancel()
    await soon(settled)


async def test_closing_settles_and_after_it_all_is(engine) -> None:
    blocking = Blocking(engine)
    await blocking.begun()
    settled = engine.settled()
    assert not engine.close(0)
    assert not settled.done()
    await blocking.release()
    await soon(settled)
    await soon(engine.settled())


async def test_a_cancelled_settled_is_ignored(engine, caplog) -> None:
    blocking = Blocking(engine)
    await blocking.begun()
    given_up, settled = engine.settled(), engine.settled()
    given_up.cancel()
    await blocking.release()
    await soon(settled)
    assert caplog.records == []


async def test_a_thousand_replaced_pieces_of_work_leak_nothing(engine) -> None:
    class Job:
        def __call__(self, _: Cancel) -> bool:
            threads.add(threading.current_thread())
            return True

    jobs, threads = [], set[threading.Thread]()
    for _ in range(1000):
        job = Job()
        jobs.append(weakref.ref(job))
        engine.run_idle("a", job)
        engine.run("a", lambda _: None)
        del job
    assert len(engine._idle) <= 1 and engine._ready.total() <= 1
    await soon(engine.settled())
    await engine.run("last", lambda _: None)
    gc.collect()
    assert [ref for ref in jobs if ref() is not None] == []
    assert threads == {engine._thread}
    assert not (engine._idle or engine._tickets or engine._settling)


async def test_finished_work_is_let_go_of_without_the_collector(engine) -> None:
    class Text:
        pass

    gc.disable()
    try:
        text = Text()
        seen = weakref.ref(text)
        engine.run_idle("a", lambda cancel, text=text: not cancel())
        del text
        await soon(engine.settled())
        assert seen() is None
    finally:
        gc.enable()


async def test_requests_and_work_ahead_from_a_hurried_user(engine) -> None:
    """Every job is answered, and the work is done in the end, however they interrupt each other."""
    work, answers = [Ahead(pieces=0) for _ in range(200)], []
    for n, each in enumerate(work):
        engine.run_idle(n % 3, each)
        answers.append(engine.run("a", lambda _, n=n: n))
        if n % 7 == 0:
            await loop_at_rest()
    await soon(engine.settled())
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert outcomes[-1] == 199
    assert all(outcome == n or isinstance(outcome, Cancelled) for n, outcome in enumerate(outcomes))
    assert [each.calls for each in work[-3:]] == [1, 1, 1]
