"""Threads that make way for other programs, and the engine's, which may be told to make way no more."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.session.engine_thread import EngineThread, Superseded
from efim_ls.session.niceness import describe, make_way

T = TypeVar("T")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a niceness of threads")


@pytest.fixture
def engine() -> Iterator[EngineThread]:
    engine = EngineThread()
    yield engine
    assert engine.close(10), "a job of the test is still running"


def niceness() -> int:
    """The calling thread's."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def on_a_thread(function: Callable[[], T]) -> T:
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


@linux_only
def test_a_thread_and_those_it_starts_make_way_and_no_other() -> None:
    def nice() -> tuple[int, int]:
        make_way(7)
        return niceness(), on_a_thread(niceness)

    before = niceness()
    assert on_a_thread(nice) == (7, 7)
    assert niceness() == before


@linux_only
@given(st.lists(st.integers(0, 19)))
def test_a_niceness_is_never_lowered(wanted: list[int]) -> None:
    def nice() -> int:
        for each in wanted:
            make_way(each)
        return niceness()

    assert on_a_thread(nice) == max([niceness(), *wanted])


@linux_only
def test_where_it_is_forbidden_the_log_says_so(monkeypatch, caplog) -> None:
    def forbid(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "setpriority", forbid)
    on_a_thread(lambda: make_way(7))
    [message] = caplog.messages
    assert "Operation not permitted" in message


@pytest.mark.parametrize(
    ("platform", "wanted", "words"),
    [
        ("linux", 0, "any other program"),
        ("linux", 7, "the model's threads alone"),
        ("darwin", 7, "the whole process"),
        ("win32", 7, "in vain"),
    ],
)
def test_what_is_done_is_told_with_its_reason(monkeypatch, platform, wanted, words) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    make_way(0)
    told = describe(wanted)
    assert told["niceness"] == wanted and words in str(told["niceness_reason"])


def test_where_there_is_none_nothing_is_done(monkeypatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "setpriority")
    make_way(7)


@linux_only
async def test_the_engines_niceness_goes_up_and_down(engine: EngineThread) -> None:
    before = niceness()
    for wanted in (0, 7, 3, 3, 0):
        engine.renice(wanted)
        assert await engine.run("a", lambda _: niceness()) == max(before, wanted)
    assert niceness() == before


async def test_an_older_thread_ends_and_the_same_niceness_needs_no_other(engine: EngineThread) -> None:
    older = await thread_of(engine)
    await engine.settled()  # it waits for work
    engine.renice(7)
    await asyncio.to_thread(older.join, 10)
    assert not older.is_alive()
    newer = await thread_of(engine)
    engine.renice(7)
    assert await thread_of(engine) is newer


async def test_what_is_under_way_is_finished_first_and_what_waits_follows_in_order(engine: EngineThread) -> None:
    began, gate, last, done = threading.Event(), threading.Event(), threading.Event(), list[str]()
    engine.allowance.seconds = 10
    older = await thread_of(engine)
    under_way = engine.run("under way", lambda _: began.set() or gate.wait(10))
    queued = [engine.run(name, lambda _, name=name: last.wait(10) and done.append(name)) for name in ("a", "b")]
    engine.ahead("ahead", lambda _: done.append("ahead") or True)
    settled = engine.settled()
    assert await asyncio.to_thread(began.wait, 10)
    for wanted in (7, 3):
        engine.renice(wanted)
    gate.set()
    assert await under_way
    await asyncio.to_thread(older.join, 10)
    await asyncio.sleep(0)  # whatever the older one posted at its end comes now
    assert not settled.done() and done == []
    last.set()
    await asyncio.gather(*queued, settled)
    assert done == ["a", "b", "ahead"]


async def test_a_thread_that_does_not_stop_is_seen_behind_the_new_one(engine: EngineThread) -> None:
    began, gate = threading.Event(), threading.Event()
    deaf = engine.run("deaf", lambda _: began.set() or gate.wait(10))
    assert await asyncio.to_thread(began.wait, 10)
    engine.renice(7)
    assert not engine.close(0.01)
    gate.set()
    engine.supersede("deaf")
    with pytest.raises(Superseded):
        await deaf


async def thread_of(engine: EngineThread) -> threading.Thread:
    return await engine.run("thread", lambda _: threading.current_thread())
