from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Iterator

import pytest

from efim_ls.session.engine_thread import EngineThread
from model_runtime.cancel import Cancel, Cancelled
from tests.waiting import HANG, eventually, happened, loop_at_rest


@pytest.fixture
def engine() -> Iterator[EngineThread]:
    engine = EngineThread()
    yield engine
    assert engine.close(HANG), "a job of the test is still running"


class Work:
    """A job that runs until it is told to stop, and says what happened to it."""

    def __init__(self) -> None:
        self.began, self.ended = threading.Event(), threading.Event()

    def __call__(self, cancel: Cancel) -> str:
        self.began.set()
        eventually(cancel, "the job is not stopped")
        self.ended.set()
        return "stopped"


def kept(engine: EngineThread) -> int:
    return sum(map(len, (engine._tickets, engine._idle, engine._settling)))


async def test_jobs_run_in_order_on_one_thread_that_is_not_ours(engine) -> None:
    runs = [engine.run(n, lambda _, n=n: (n, threading.current_thread())) for n in range(5)]
    numbers, threads = zip(*await asyncio.gather(*runs), strict=True)
    assert numbers == (0, 1, 2, 3, 4)
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon


async def test_what_a_job_raises_is_its_askers_and_the_thread_goes_on(engine) -> None:
    def fail(_: Cancel) -> None:
        raise SystemExit("enough")

    with pytest.raises(SystemExit, match="enough"):
        await engine.run("a", fail)
    assert await engine.run("a", lambda _: "fine") == "fine"


async def test_a_newer_job_stops_the_older_with_its_key(engine) -> None:
    work = Work()
    older = engine.run("a", work)
    await happened(work.began)
    newer = engine.run("a", lambda _: "newer")
    with pytest.raises(Cancelled):
        await older
    assert await newer == "newer"
    assert work.ended.is_set()


async def test_the_older_is_answered_before_its_job_has_noticed(engine) -> None:
    began, gate = threading.Event(), threading.Event()
    older = engine.run("a", lambda _: began.set() or gate.wait(HANG))
    await happened(began)
    newer = engine.run("a", lambda _: "newer")
    with pytest.raises(Cancelled):
        await older
    assert not newer.done()
    gate.set()
    assert await newer == "newer"


async def test_other_keys_are_left_alone(engine) -> None:
    work = Work()
    one = engine.run("a", work)
    other = engine.run("b", lambda _: "other")
    await happened(work.began)
    engine.supersede("a")
    with pytest.raises(Cancelled):
        await one
    assert await other == "other"


async def test_queued_jobs_that_were_superseded_never_run(engine) -> None:
    work, ran = Work(), []
    engine.run("blocking", work)
    await happened(work.began)
    queued = [engine.run("a", lambda _, n=n: ran.append(n)) for n in range(10)]
    engine.supersede("blocking")
    answers = await asyncio.gather(*queued, return_exceptions=True)
    assert ran == [9]
    assert [type(a) for a in answers] == [Cancelled] * 9 + [type(None)]


async def test_a_newer_job_does_not_inherit_the_olders_place(engine) -> None:
    work, ran = Work(), []
    engine.run("blocking", work)
    await happened(work.began)
    jobs = [engine.run(key, lambda _, key=key: ran.append(key)) for key in "aba"]
    engine.supersede("blocking")
    await asyncio.gather(*jobs, return_exceptions=True)
    assert ran == ["b", "a"]


async def test_queued_jobs_that_are_cancelled_leave_nothing(engine) -> None:
    work = Work()
    blocking = engine.run("blocking", work)
    await happened(work.began)
    jobs = [engine.run(n, lambda _: None) for n in range(1000)]
    for job in jobs:
        job.cancel()
    await asyncio.gather(*jobs, return_exceptions=True)
    assert kept(engine) == 1, "the one that is under way"
    blocking.cancel()


async def test_cancelling_who_waits_stops_the_job(engine) -> None:
    work = Work()

    async def ask() -> str:
        return await engine.run("a", work)

    task = asyncio.create_task(ask())
    await happened(work.began)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await happened(work.ended)
    assert await engine.run("a", lambda _: "next") == "next"


async def test_cancelled_before_it_began_a_job_never_runs(engine) -> None:
    work, ran = Work(), []
    blocking = engine.run("blocking", work)
    queued = engine.run("a", lambda _: ran.append(1))
    queued.cancel()
    await happened(work.began)
    await loop_at_rest()  # the future has told its callbacks
    engine.supersede("blocking")
    with pytest.raises(Cancelled):
        await blocking
    await engine.run("last", lambda _: None)
    assert ran == []


async def test_a_given_up_job_that_fails_is_logged(engine, caplog) -> None:
    began, gate = threading.Event(), threading.Event()

    def fail(_: Cancel) -> None:
        began.set()
        gate.wait(HANG)
        raise ValueError("too late")

    older = engine.run("a", fail)
    await happened(began)
    newer = engine.run("a", lambda _: "newer")
    gate.set()
    with pytest.raises(Cancelled):
        await older
    assert await newer == "newer"
    assert [r.levelno for r in caplog.records] == [logging.ERROR]


async def test_who_gives_up_and_asks_again_at_once_is_nothing_to_log(engine, caplog) -> None:
    given_up = engine.run("a", Work())
    given_up.cancel()
    assert await engine.run("a", lambda _: "fine") == "fine"
    assert caplog.records == []


async def test_nothing_leaks_after_a_thousand_superseded_requests(engine) -> None:
    class Job:
        def __call__(self, cancel: Cancel) -> Job:
            threads.add(threading.current_thread())
            return self

    jobs, answers, threads = [], [], set[threading.Thread]()
    for _ in range(1000):
        job = Job()
        jobs.append(weakref.ref(job))
        answers.append(engine.run("a", job))
        del job
        if len(answers) % 100 == 0:
            await loop_at_rest()
    assert isinstance(await answers[-1], Job)
    failures = await asyncio.gather(*answers[:-1], return_exceptions=True)
    assert {type(f) for f in failures} <= {Cancelled, Job}
    await engine.run("last", lambda _: None)
    await loop_at_rest()
    answers.clear()
    failures.clear()
    gc.collect()
    assert [ref for ref in jobs if ref() is not None] == []
    assert threads == {engine._thread}
    assert kept(engine) == 0


async def test_superseded_jobs_let_go_of_their_texts_at_once(engine) -> None:
    class Text:
        pass

    work, text = Work(), Text()
    blocking = engine.run("blocking", work)
    await happened(work.began)
    older = engine.run("a", lambda _, text=text: text)
    seen = weakref.ref(text)
    del text
    newer = engine.run("a", lambda _: None)
    gc.collect()
    assert seen() is None, "the queue still holds it"
    engine.supersede("blocking")
    await asyncio.gather(blocking, older, newer, return_exceptions=True)


async def test_closing_stops_running_jobs(engine) -> None:
    work = Work()
    answer = engine.run("a", work)
    await happened(work.began)
    assert engine.close(HANG)
    assert await answer == "stopped"


async def test_closing_does_not_wait_for_a_job_that_does_not_stop(engine) -> None:
    began, gate = threading.Event(), threading.Event()
    answer = engine.run("a", lambda _: began.set() or gate.wait(HANG))
    await happened(began)
    assert not engine.close(0)
    gate.set()
    await answer


def test_a_loop_that_is_gone_does_not_disturb_the_thread(engine) -> None:
    gate = threading.Event()

    async def ask() -> None:
        engine.run("a", lambda _: gate.wait(HANG)).cancel()
        engine.run("b", lambda _: gate.wait(HANG))

    asyncio.run(ask())
    gate.set()
    assert asyncio.run(_answer(engine)) == "fine"


async def _answer(engine: EngineThread) -> str:
    return await engine.run("a", lambda _: "fine")


async def test_a_held_job_is_queued_later(engine) -> None:
    held = engine.run("a", lambda _: "held", after=0.001)
    assert [ticket.state for ticket in engine._tickets.values()] == ["held"]
    assert await held == "held"


async def test_a_held_job_does_not_keep_others_waiting(engine) -> None:
    ran = []
    held = engine.run("a", lambda _: ran.append("held"), after=3600)
    await engine.run("b", lambda _: ran.append("other"))
    assert ran == ["other"] and not held.done()
    held.cancel()


async def test_a_newer_job_supersedes_a_held_one_at_once(engine) -> None:
    ran = []
    held = engine.run("a", lambda _: ran.append("held"), after=3600)
    newer = engine.run("a", lambda _: ran.append("newer"))
    assert isinstance(held.exception(), Cancelled)
    await newer
    assert ran == ["newer"]


async def test_a_held_job_supersedes_an_older_one_at_once(engine) -> None:
    work = Work()
    older = engine.run("a", work)
    await happened(work.began)
    held = engine.run("a", lambda _: None, after=3600)
    assert isinstance(older.exception(), Cancelled)
    await happened(work.ended)
    held.cancel()


async def test_a_thousand_superseded_held_jobs_leave_nothing(engine) -> None:
    timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    held = [engine.run("a", lambda _: None, after=3600) for _ in range(1000)]
    held[-1].cancel()
    await asyncio.gather(*held, return_exceptions=True)
    await loop_at_rest()
    assert kept(engine) == 0
    assert [timer for timer in timers if not timer.cancelled()] == []


async def test_closing_forgets_held_jobs(engine) -> None:
    ran = []
    held = engine.run("a", lambda _: ran.append(1), after=0.001)
    assert engine.close(HANG)
    fired = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.002, fired.set_result, None)
    await fired
    assert ran == [] and not held.done()
    assert not engine._ready
