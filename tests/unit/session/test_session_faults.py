"""A mistake that one document brings out does not stop the others: settings, timers, completions, closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from efim_ls.access.rules import Rules
from efim_ls.request import Answer, Request, Upcoming
from efim_ls.session.documents import IdleTimer
from efim_ls.session.session import Session
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.prompt.context import ContextBudget
from tests.sized import Sized
from tests.waiting import HANG, loop_at_rest

BAD, GOOD = "file:///bad.py", "file:///good.py"


class Fake:
    """A completer that cannot prefetch or save one of its documents."""

    tokenizers = None

    def __init__(self) -> None:
        self.prefetched: list[str] = []
        self.saved: list[str] = []
        self.others: list[tuple[str, ...]] = []
        self.closed = False

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        self.others.append(request.others)
        return Answer("more")

    @property
    def context_budget(self) -> ContextBudget:
        return ()

    def answering(self) -> AbstractContextManager[None]:
        return nullcontext()

    def open_elsewhere(self, progress: object) -> None: ...

    def allow(self, seconds: float) -> None: ...

    def notice(self, language: str) -> str | None:
        return None

    def prepare(self, place: Upcoming, cancel: Cancel) -> bool:
        uri = place.request.uri
        if place.because == "opened":
            if uri == BAD:
                raise TypeError(uri)
            self.prefetched.append(uri)
        return True

    def rest(self, seconds: float) -> None: ...

    def save(self, uri: str, cancel: Cancel) -> bool:
        self.saved.append(uri)
        return True

    def close_document(self, uri: str, save: bool) -> None:
        pass

    def flush(self, seconds: float) -> bool:
        return True

    def close(self, seconds: float, then: Settings | None = None) -> bool:
        self.closed = True
        return True

    def describe(self) -> dict[str, object]:
        return {}


@pytest.fixture
def model() -> Fake:
    return Fake()


@pytest.fixture
async def session(model: Any) -> AsyncIterator[Session]:
    session = Session(lambda settings, progress: model)
    session.configure(Settings(persist=False))
    await session.load(lambda message, percent: None)
    yield session
    assert session.engine.close(HANG)


@pytest.fixture
def unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    """One document that no rules can judge."""
    judge = Rules._off

    def off(rules: Rules, paths: frozenset[str], names: frozenset[str], language: str) -> object:
        if "/bad.py" in paths:
            raise TypeError(paths)
        return judge(rules, paths, names, language)

    monkeypatch.setattr(Rules, "_off", off)


async def test_a_document_that_cannot_be_judged_is_off_and_the_others_are_not(
    session: Session, model: Fake, unjudged: None
) -> None:
    for uri in (GOOD, BAD):
        session.open(uri, "python", uri)
    assert session.configure(Sized(persist=False, max_new_tokens=1)), "the model must be loaded for this"
    good, bad = (session.documents.get(uri) for uri in (GOOD, BAD))
    assert good is not None and bad is not None
    assert (await session.requests.complete(session.request_at(good, 0, explicit=True))).text == "more"
    assert (await session.requests.complete(session.request_at(bad, 0, explicit=True))).reason == "error"
    assert model.others == [()], "what cannot be judged is not read for others"


async def test_settings_are_adopted_although_one_document_cannot_be_dropped(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [session.open(uri, "python", "x") for uri in (BAD, GOOD)]
    dropped, drop = list[str](), session.background.drop

    def drop_or_fail(document: Any) -> None:
        if document.uri == BAD:
            raise TypeError(BAD)
        dropped.append(document.uri)
        drop(document)

    monkeypatch.setattr(session.background, "drop", drop_or_fail)
    assert session.configure(Sized(disabled_languages=("python",), max_new_tokens=1))
    assert [session.documents.why_off(document.uri) is None for document in documents] == [False, False]
    assert dropped == [GOOD]


async def test_a_pause_whose_work_fails_leaves_no_timer_and_other_documents_their_work(
    session: Session, model: Fake
) -> None:
    session.engine.allow(60)
    for uri in (BAD, GOOD):
        session.open(uri, "python", "x")
    async with asyncio.timeout(HANG):
        await session.background.settled()
    assert model.prefetched == [GOOD]


async def test_a_timer_whose_call_fails_is_over() -> None:
    timer, calls = IdleTimer(), list[str]()

    def fail() -> None:
        calls.append("called")
        raise TypeError

    timer.start(1000, fail)
    timer.fire()
    assert calls == ["called"] and not timer.waiting
    timer.start(0, fail)
    await loop_at_rest()
    assert calls == ["called", "called"] and not timer.waiting


async def test_a_document_out_of_step_is_off_and_not_read_for_others(session: Session, model: Fake) -> None:
    good, bad = (session.open(uri, "python", uri) for uri in (GOOD, BAD))
    session.edit(bad, [None])
    assert (off := session.documents.why_off(BAD)) is not None and off.reason == "out of step"
    assert (await session.requests.complete(session.request_at(bad, 0, explicit=True))).reason == "out of step"
    assert (await session.requests.complete(session.request_at(good, 0, explicit=True))).text == "more"
    assert model.others == [()]


async def test_no_part_of_closing_keeps_the_model_from_being_closed(
    session: Session, model: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "of a damaged file")

    bad, good = (session.open(uri, "python", "x") for uri in (BAD, GOOD))
    closed = list[str]()
    monkeypatch.setattr(bad.retention, "close", fail)
    monkeypatch.setattr(good.retention, "close", lambda: closed.append(GOOD))
    monkeypatch.setattr(session.history, "write", fail)
    assert await asyncio.to_thread(session.close, 10)
    assert model.closed and closed == [GOOD]
