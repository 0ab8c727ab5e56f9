"""Several clients on one engine thread: keys, turns, idle work and ends of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from efim_ls.session.engine_thread import EngineClient, EngineThread
from model_runtime.cancel import Cancel, Cancelled


@pytest.fixture
def thread() -> Iterator[EngineThread]:
    thread = EngineThread()
    yield thread
    assert thread.close(10), "a job of the test is still running"


class Steps:
    """A job of many steps that remembers those it has done, and gives up its turn when it is told to stop."""

    def __init__(self, count: int, log: list[str], name: str) -> None:
        self.left, self.log, self.name, self.turns = count, log, name, 0
        self.began = threading.Event()

    def __call__(self, cancel: Cancel) -> str:
        self.turns += 1
        self.began.set()
        while self.left:
            self.left -= 1
            self.log.append(self.name)
            threading.Event().wait(0.001)
            cancel.check()
        return self.name


async def begun(work: Steps) -> None:
    assert await asyncio.to_thread(work.began.wait, 10)


async def test_clients_with_the_same_keys_do_not_supersede_each_other(thread: EngineThread):
    one, two = EngineClient(thread), EngineClient(thread)
    assert await asyncio.gather(one.run("a", lambda _: 1), two.run("a", lambda _: 2)) == [1, 2]
    old = one.run("a", lambda _: "old", after=60)
    assert await one.run("a", lambda _: "new") == "new"
    with pytest.raises(Cancelled):
        await old


async def test_a_long_job_lets_others_go_before_and_is_continued(thread: EngineThread):
    one, two, log = EngineClient(thread), EngineClient(thread), list[str]()
    long, short = Steps(60, log, "long"), Steps(2, log, "short")
    answer = one.run("a", long, turn=0.01)
    await begun(long)
    assert await two.run("a", short, turn=0.01) == "short"
    assert long.left > 0, "the other one had to wait to the end"
    assert await answer == "long"
    assert log.count("long") == 60 and long.turns == 2


async def test_a_client_alone_is_not_interrupted(thread: EngineThread):
    engine, log = EngineClient(thread), list[str]()
    long = Steps(60, log, "long")
    answer = engine.run("a", long, turn=0.001)
    await begun(long)
    other = engine.run("b", lambda _: list(log))
    assert await answer == "long" and len(await other) == 60
    assert long.turns == 1


async def test_jobs_without_turns_run_to_their_end(thread: EngineThread):
    one, two, log = EngineClient(thread), EngineClient(thread), list[str]()
    loading = Steps(60, log, "loading")
    loaded = one.run("a", loading)
    await begun(loading)
    assert len(await two.run("b", lambda _: list(log))) == 60
    assert await loaded == "loading" and loading.turns == 1


async def test_turns_grow_until_a_job_ends_that_loses_its_work(thread: EngineThread):
    one, two = EngineClient(thread), EngineClient(thread)
    turns = 0

    def forgetful(cancel: Cancel) -> str:
        nonlocal turns
        turns += 1
        for _ in range(30):
            threading.Event().wait(0.001)
            cancel.check()
        return "done"

    answer = one.run("a", forgetful, turn=0.002)
    while not answer.done():
        await two.run("b", lambda _: None)
    assert await answer == "done" and turns < 10


async def test_one_that_leaves_takes_its_own_work_with_it(thread: EngineThread):
    one, two, ran = EngineClient(thread), EngineClient(thread), list[str]()
    blocker = Steps(10_000, list[str](), "blocker")
    one.allow(60)
    two.allow(30)
    leaving = one.run("a", blocker)
    await begun(blocker)
    waiting = one.run("b", lambda _: ran.append("one"))
    one.run_idle("c", lambda _: bool(ran.append("idle")), budgeted=False)
    staying = two.run("b", lambda _: ran.append("two"))
    one.leave()
    for each in (leaving, waiting):
        with pytest.raises(Cancelled):
            await each
    await staying
    await two.settled()
    assert ran == ["two"]
    assert (one.idle_seconds, two.idle_seconds, thread.idle_budget.seconds) == (0, 30, 30)


async def test_clients_share_the_largest_budget(thread: EngineThread):
    one, two = EngineClient(thread), EngineClient(thread)
    one.allow(6)
    two.allow(2)
    assert (one.idle_seconds, two.idle_seconds, thread.idle_budget.seconds) == (6, 2, 6)
    one.allow(0)
    assert (one.idle_seconds, thread.idle_budget.seconds) == (0, 2)


async def test_anyone_who_types_holds_the_work_beside(thread: EngineThread):
    one, two = EngineClient(thread), EngineClient(thread)
    assert not two.is_typing(10)
    one.note_typing()
    assert two.is_typing(10) and not two.is_typing(0)
