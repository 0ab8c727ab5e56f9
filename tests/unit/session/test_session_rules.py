"""What a session drops when rules leave a document out while there is work for it, and what it does at rest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from efim_ls.request import Answer, Request, Upcoming
from efim_ls.session import prefetch
from efim_ls.session.session import Session
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.prompt.context import ContextBudget
from tests.waiting import HANG

OFF, ON = Settings(disabled_languages=("python",)), Settings()


class Fake:
    """A completer that answers and works ahead once the gate is open, and remembers for whom."""

    tokenizers = None

    def __init__(self) -> None:
        self.began, self.gate = threading.Event(), threading.Event()
        self.foreseen: list[str] = []
        self.kept: list[str] = []
        self.rested = threading.Event()

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        self.began.set()
        self.gate.wait(HANG)
        return Answer("more")

    @property
    def context_budget(self) -> ContextBudget:
        return ()

    def answering(self) -> AbstractContextManager[None]:
        return nullcontext()

    def open_elsewhere(self, progress: object) -> None: ...

    def allow(self, seconds: float) -> None: ...

    def prepare(self, place: Upcoming, cancel: Cancel) -> bool:
        self.foreseen.append(place.request.uri)
        return True

    def rest(self, seconds: float) -> None:
        self.rested.set()

    def save(self, uri: str, cancel: Cancel) -> bool:
        self.kept.append(uri)
        return True

    def flush(self, seconds: float) -> bool:
        return True

    def explain(self, request: Request, answered: Answer | None) -> dict[str, object]:
        return {"reason": None}

    def close_document(self, uri: str, save: bool) -> None:
        pass

    def describe(self) -> dict[str, object]:
        return {}


@pytest.fixture
def model() -> Fake:
    return Fake()


@pytest.fixture
async def session(model: Any) -> AsyncIterator[Session]:
    session = Session(lambda settings, progress: model)
    session.configure(ON)
    await session.load(lambda message, percent: None)
    for uri, language in (("a", "python"), ("b", "ruby")):
        session.open(uri, language, "x")
    yield session
    model.gate.set()
    assert session.engine.close(HANG), "a job of the test is still running"


async def busy(session: Session, model: Fake, uri: str) -> asyncio.Task[Answer]:
    """Have the engine at work for a document until the gate opens."""
    task = asyncio.create_task(session.requests.complete(Request(uri, "x", 1, explicit=True)))
    assert await asyncio.to_thread(model.began.wait, 10)
    return task


@pytest.mark.parametrize("settings", [OFF, ON])
async def test_work_ahead_that_is_queued_is_dropped(session: Session, model: Fake, settings: Settings) -> None:
    under_way = await busy(session, model, "b")
    session.engine.run_idle("a", partial(model.prepare, Upcoming(Request("a", "x", 1))))
    session.configure(settings)
    session.configure(ON)
    model.gate.set()
    await under_way
    await session.background.settled()
    assert ("a" in model.foreseen) is (settings is ON)


@pytest.mark.parametrize("settings", [OFF, ON])
async def test_nothing_follows_an_answer_that_comes_too_late(
    session: Session, model: Fake, settings: Settings
) -> None:
    under_way = await busy(session, model, "a")
    session.configure(settings)
    model.gate.set()
    assert (await under_way).reason == ("superseded" if settings is OFF else None)
    await session.engine.settled()
    session.configure(ON)
    await session.background.settled()
    assert ("a" in model.foreseen, "a" in model.kept) == (settings is ON, settings is ON)


async def test_all_is_settled_once_prompts_have_taken_up_what_was_chosen_of_other_files(
    session: Session, model: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (document := session.documents.get("a"))
    document.cursor = 1
    await session.settled()
    model.foreseen.clear()

    async def chosen() -> None:
        """The index is ready, and has reported the document in use."""
        session.workspace._chosen(document)

    monkeypatch.setattr(session.workspace, "settled", chosen)
    await session.settled()
    assert model.foreseen == ["a"]


@pytest.mark.parametrize("settings", [OFF, ON])
async def test_queued_saving_is_dropped(session: Session, model: Fake, settings: Settings) -> None:
    model.gate.set()
    await session.requests.complete(Request("a", "x", 1, explicit=True))
    await session.engine.settled()
    session.configure(settings)
    session.configure(ON)
    await session.background.settled()
    assert ("a" in model.kept) is (settings is ON)


@pytest.mark.parametrize("settings", [OFF, ON])
async def test_a_document_closed_while_off_is_not_saved(session: Session, model: Fake, settings: Settings) -> None:
    session.configure(settings)
    session.close_document("a")
    session.configure(ON)
    await session.background.settled()
    assert ("a" in model.kept) is (settings is ON)


async def test_a_reopened_document_gets_a_new_verdict(session: Session, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("x")
    link = tmp_path / "a.py"
    session.open(uri := link.as_uri(), "python", "x")
    assert session.documents.why_off(uri) is None
    session.close_document(uri)
    link.symlink_to(tmp_path / ".env")
    session.open(uri, "python", "x")
    assert session.documents.why_off(uri) is not None


async def test_of_a_document_that_is_closed_no_answer_is_remembered(session: Session, model: Fake) -> None:
    under_way = await busy(session, model, "a")
    session.close_document("a")
    model.gate.set()
    assert (await under_way).reason == "superseded"
    session.open("a", "python", "x")
    assert (await session.requests.explain(Request("a", "x", 1)))["reason"] is None


async def test_why_a_document_is_off_is_told_without_a_model(model: Any) -> None:
    session = Session(lambda settings, progress: model)
    session.open("a", "python", "x")
    assert session.documents.why_off("a") is None
    session.configure(OFF)
    assert (off := session.documents.why_off("a")) is not None and off.reason == "language off"
    assert session.documents.why_off("file:///home/me/.env") is not None, "though it is not open"
    assert session.engine.close(HANG)


@pytest.mark.parametrize(
    ("text", "ahead"),
    [("one\ntwo\n", True), ("1\nx\ny\nz", True), ("1\n2", False), ("12\n2\n3", False), ("1\n2\n2\n3", False)],
)
async def test_lines_that_replace_others_are_prefetched(
    session: Session, model: Fake, text: str, ahead: bool
) -> None:
    model.gate.set()
    document = session.open("c", "python", "1\n2\n3")
    document.cursor = 0
    await session.background.settled()
    model.foreseen.clear()
    session.sync("c", "python", text)
    await session.background.settled()
    assert ("c" in model.foreseen) is ahead


async def test_memory_is_given_back_after_a_long_rest(
    session: Session, model: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "LONG_REST", 0.01)
    model.gate.set()
    await session.requests.complete(Request("a", "x", 1, explicit=True))
    assert await asyncio.to_thread(model.rested.wait, 10)


async def test_memory_is_given_back_a_while_after_a_document_was_closed(
    session: Session, model: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "LONG_REST", 0.01)
    session.close_document("a")
    assert await asyncio.to_thread(model.rested.wait, 10)
