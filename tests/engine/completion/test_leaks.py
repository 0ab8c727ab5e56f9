"""After a storm of requests nothing is left of them but what is bounded: tasks, threads, frames, memory."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from efim_ls.completion.completer import Completer
from efim_ls.completion.planning.planner import FRAMES
from efim_ls.completion.suggestions.recent import MOST_SUGGESTIONS
from efim_ls.request import Answer, Request
from efim_ls.session.loader import load_completer
from efim_ls.session.session import Session
from model_runtime.kv.arena import DenseArena
from model_runtime.prompt.prompt import Prompt
from tests.models import CODE
from tests.sized import ONE_PLACE, Sized
from tests.waiting import HANG, loop_at_rest

STORM = 150
EARLIER: list[object] = []


@pytest.fixture
async def session(folder: Path) -> AsyncIterator[Session]:
    session = Session(load_completer)
    settings = Sized(model=str(folder), head_tokens=200, tail_tokens=50, max_new_tokens=8, memory_mib=ONE_PLACE)
    session.configure(replace(settings, prefetch_seconds_per_minute=60))
    await session.load(lambda *_: None)
    assert session.status.state == "ready", session.status.message
    yield session
    assert session.close(HANG)  # all of it: counts that wait to be written hold on to it as well


async def storm(session: Session) -> list[str]:
    """Type on in several places of a few files, each key before the one before it was answered."""
    asked = list[asyncio.Task[Answer]]()
    for n in range(STORM):
        uri, cursor = f"file:///{n % 3}.py", (n * 37) % len(CODE)
        if session.documents.get(uri) is None:
            session.open(uri, "python", CODE)
        asked.append(
            asyncio.create_task(session.requests.complete(Request(uri, CODE[:cursor] + "x" * (n % 7), cursor)))
        )
        if not n % 10:
            await loop_at_rest()
        if not n % 3:
            asked[n // 2].cancel()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await session.settled()
    return ["cancelled" if isinstance(answer, BaseException) else answer.text for answer in answers]


@pytest.fixture(autouse=True)
def _earlier() -> Iterator[None]:
    """Keep apart what other files' tests hold on to in this process."""
    gc.collect()
    EARLIER[:] = [each for each in gc.get_objects() if type(each) in (Completer, DenseArena, Prompt)]
    yield
    EARLIER.clear()


def living(*kinds: type) -> list[type]:
    earlier = {id(each) for each in EARLIER}
    return [type(each) for each in gc.get_objects() if type(each) in kinds and id(each) not in earlier]


def alive(kind: type) -> int:
    gc.collect()
    return len(living(kind))


async def test_a_model_that_is_replaced_leaves_nothing(session: Session) -> None:
    await storm(session)
    assert alive(DenseArena)
    session.configure(replace(session.settings, max_lines=3))
    loading = asyncio.create_task(session.load(lambda *_: None))
    await loading
    assert living(Completer, DenseArena) == [Completer]
    await session.settled()


@contextmanager
def threads_started() -> Iterator[list[threading.Thread]]:
    started, start = list[threading.Thread](), threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", noted)
        yield started


async def test_a_storm_of_superseded_requests_leaves_nothing_that_grows(session: Session) -> None:
    completer = cast("Completer", session.model.completer)
    await storm(session)
    kinds = (Answer, asyncio.Task)
    before, arenas = [alive(kind) for kind in kinds], alive(DenseArena)
    with threads_started() as threads:
        assert len(await storm(session)) == STORM
    for thread in threads:
        if not thread.name.startswith("asyncio_") and thread is not session.history._timer:  # of which there are few
            thread.join(HANG)
            assert not thread.is_alive()
    assert session.counters.answered["superseded"] > STORM / 2
    assert [alive(kind) for kind in kinds] == before
    assert arenas <= alive(DenseArena) <= completer.describe()["arenas"]  # type: ignore[operator]
    assert alive(Prompt) <= 2 * FRAMES * len(completer._documents), "of frames, planned and asked for"
    assert all(len(document.planner.frames) <= FRAMES for document in completer._documents.values())
    assert all(
        len(document.suggestions._suggestions) <= MOST_SUGGESTIONS for document in completer._documents.values()
    )
    thread = session.engine._thread
    assert not thread._tickets and not thread._ready and not thread._idle
    for document in session.documents:
        session.close_document(document.uri)
    await session.settled()
    assert not any(model._open for model in completer.models.in_use)
    assert not any(document.unsaved for document in completer._documents.values())
    assert not any(document.suggestions._suggestions for document in completer._documents.values())
