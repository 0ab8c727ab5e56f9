"""Work behind answers: quick, done whatever the allowance is, and before work ahead of need."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from efim_ls.completion.idle_budget import IdleBudget
from efim_ls.session.engine_thread import EngineThread, Job
from model_runtime.cancel import Cancel
from tests.waiting import HANG, eventually, happened


@pytest.fixture
def engine() -> Iterator[EngineThread]:
    engine = EngineThread(IdleBudget(0))
    yield engine
    assert engine.close(HANG), "a job of the test is still running"


def noting(done: list[str], name: str) -> Job[bool]:
    def job(_: Cancel) -> bool:
        done.append(name)
        return True

    return job


async def test_unbudgeted_work_runs_without_budget_and_settled_waits(engine: EngineThread) -> None:
    done: list[str] = []
    engine.run_idle("ahead", noting(done, "ahead"))
    engine.run_idle("behind", noting(done, "behind"), budgeted=False)
    await engine.settled()
    assert done == ["behind"]


async def test_it_goes_before_work_ahead_in_the_order_of_the_calls(engine: EngineThread) -> None:
    done, gate = list[str](), threading.Event()
    engine.idle_budget.allow(10)
    answered = engine.run("request", lambda _: gate.wait(HANG))
    engine.run_idle("a", noting(done, "a"), budgeted=False)
    engine.run_idle("b", noting(done, "b"), budgeted=False)
    engine.run_idle("ahead", noting(done, "ahead"))
    gate.set()
    await answered
    await engine.settled()
    assert done == ["a", "b", "ahead"]


async def test_a_request_interrupts_it_and_it_goes_on_afterwards(engine: EngineThread) -> None:
    done, began = list[str](), threading.Event()

    def job(cancel: Cancel) -> bool:
        done.append("called")
        if len(done) > 1:
            return True
        began.set()
        eventually(cancel, "the work is not interrupted")
        return False

    engine.run_idle("behind", job, budgeted=False)
    await happened(began)
    assert await engine.run("request", lambda _: done.append("answered")) is None
    await engine.settled()
    assert done == ["called", "answered", "called"]


async def test_the_latest_with_a_key_takes_the_older_ones_place(engine: EngineThread) -> None:
    done, gate = list[str](), threading.Event()
    answered = engine.run("request", lambda _: gate.wait(HANG))
    engine.run_idle("a", noting(done, "older"), budgeted=False)
    engine.run_idle("a", noting(done, "newer"), budgeted=False)
    gate.set()
    await answered
    await engine.settled()
    assert done == ["newer"]
