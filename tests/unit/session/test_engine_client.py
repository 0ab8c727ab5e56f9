"""Several clients on one engine thread: keys, turns, idle work and ends of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from efim_ls.session.engine_thread import EngineClient, EngineThread
from model_runtime.cancel import Cancel, Cancelled
from tests.waiting import HANG, Clock, happened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def thread(clock: Clock) -> Iterator[EngineThread]:
    thread = EngineThread(clock=clock)
    yield thread
    assert thread.close(HANG), "a job of the test is still running"


class Steps:
    """A job of many steps, of a second each, that remembers those it has done and stops when it is told to.

    At the beginning of each turn it waits until it is told to go on.
    """

    def __init__(self, clock: Clock, count: int) -> None:
        self.clock, self.left, self.turns = clock, count, list[int]()  # steps done in each turn
        self._begun, self._go_on = threading.Event(), threading.Event()

    def __call__(self, cancel: Cancel) -> str:
        self.turns.append(0)
        self._begun.set()
        assert self._go_on.wait(HANG)
        self._go_on.clear()
        while self.left:
            self.left -= 1
            self.turns[-1] += 1
            self.clock.now += 1
            cancel.check()
        return "done"

    async def begun(self) -> None:
        """Wait for the beginning of the next turn."""
        await happened(self._begun)
        self._begun.clear()

    def go_on(self) -> None:
        self._go_on.set()


async def test_clients_with_the_same_keys_do_not_supersede_each_other(thread: EngineThread):
    one, two = EngineClient(thread), EngineClient(thread)
    assert await asyncio.gather(one.run("a", lambda _: 1), two.run("a", lambda _: 2)) == [1, 2]
    old = one.run("a", lambda _: "old", after=60)
    assert await one.run("a", lambda _: "new") == "new"
    with pytest.raises(Cancelled):
        await old


async def test_a_long_job_lets_others_go_before_and_is_continued(thread: EngineThread, clock: Clock):
    one, two, long = EngineClient(thread), EngineClient(thread), Steps(clock, 60)
    answer = one.run("a", long, turn=10)
    await long.begun()
    left = two.run("a", lambda _: long.left)
    long.go_on()
    assert await left == 49, "its turn ends with the first step after ten seconds"
    await long.begun()
    long.go_on()
    assert await answer == "done" and long.turns == [11, 49]


async def test_a_client_alone_is_not_interrupted(thread: EngineThread, clock: Clock):
    engine, long = EngineClient(thread), Steps(clock, 60)
    answer = engine.run("a", long, turn=1)
    await long.begun()
    left = engine.run("b", lambda _: long.left)
    long.go_on()
    assert await answer == "done" and await left == 0
    assert long.turns == [60]


async def test_jobs_without_turns_run_to_their_end(thread: EngineThread, clock: Clock):
    one, two, loading = EngineClient(thread), EngineClient(thread), Steps(clock, 60)
    loaded = one.run("a", loading)
    await loading.begun()
    left = two.run("b", lambda _: loading.left)
    loading.go_on()
    assert await left == 0
    assert await loaded == "done" and loading.turns == [60]


async def test_turns_grow_until_a_job_ends_that_loses_its_work(thread: EngineThread, clock: Clock):
    one, two, forgetful = EngineClient(thread), EngineClient(thread), Steps(clock, 30)
    answer = one.run("a", forgetful, turn=2)
    for _ in range(5):
        await forgetful.begun()
        forgetful.left = 30
        other = two.run("b", lambda _: None)
        forgetful.go_on()
        await other
    assert await answer == "done" and forgetful.turns == [3, 5, 9, 17, 30]


async def test_one_that_leaves_takes_its_own_work_with_it(thread: EngineThread, clock: Clock):
    one, two, ran = EngineClient(thread), EngineClient(thread), list[str]()
    blocker = Steps(clock, 10)
    one.allow(60)
    two.allow(30)
    leaving = one.run("a", blocker)
    await blocker.begun()
    waiting = one.run("b", lambda _: ran.append("one"))
    one.run_idle("c", lambda _: bool(ran.append("idle")), budgeted=False)
    staying = two.run("b", lambda _: ran.append("two"))
    one.leave()
    blocker.go_on()
    for each in (leaving, waiting):
        with pytest.raises(Cancelled):
            await each
    await staying
    await two.settled()
    assert ran == ["two"] and blocker.turns == [1]
    assert (one.idle_seconds, two.idle_seconds, thread.idle_budget.seconds) == (0, 30, 30)


async def test_clients_share_the_largest_budget(thread: EngineThread):
    one, two = EngineClient(thread), EngineClient(thread)
    one.allow(6)
    two.allow(2)
    assert (one.idle_seconds, two.idle_seconds, thread.idle_budget.seconds) == (6, 2, 6)
    one.allow(0)
    assert (one.idle_seconds, thread.idle_budget.seconds) == (0, 2)


async def test_anyone_who_types_holds_the_work_beside(thread: EngineThread, clock: Clock):
    one, two = EngineClient(thread), EngineClient(thread)
    assert not two.is_typing(10)
    one.note_typing()
    assert two.is_typing(10)
    clock.now += 9.5
    assert two.is_typing(10)
    clock.now += 0.5
    assert not two.is_typing(10)
