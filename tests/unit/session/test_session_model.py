"""One model in place of another, while requests wait for the first and nobody waits for the second any more."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from typing import Any

import pytest

from efim_ls.session.loader import LOADING
from efim_ls.session.session import Session
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.errors import ModelError
from tests.unit.session.test_session_requests import FOREVER, Fake, Fixed, ask, asked
from tests.waiting import HANG, eventually


class Model(Fake):
    """One that knows whether it was let go of."""

    def __init__(self) -> None:
        super().__init__()
        self.closed, self.described = False, threading.Event()

    def describe(self) -> dict[str, object]:
        self.described.set()
        return {}

    def rest(self, seconds: float) -> None: ...

    def save(self, uri: str, cancel: Cancel) -> bool:
        return True

    def close(self, seconds: float, then: Settings | None = None) -> bool:
        self.closed = True
        return True


@pytest.fixture
def models() -> list[Model]:
    return []


@pytest.fixture
def session(models: list[Model]) -> Session:
    def load(settings: Settings, progress: Callable[[str, int], None]) -> Any:
        models.append(Model())
        return models[-1]

    return Session(load)


def load(session: Session, settings: Settings) -> asyncio.Task[None]:
    session.configure(settings)
    return asyncio.create_task(session.load(lambda message, percent: None))


async def test_a_request_that_waits_does_not_reach_a_model_that_was_let_go_of(session, models) -> None:
    session.open("a", "", "x")
    session.requests.debounce = Fixed(FOREVER)
    await load(session, Settings())
    [waiting] = await ask(session, asked("x"))
    await load(session, Settings(threads=2))
    assert waiting.done() and (await waiting).text == ""
    assert models[0].closed and models[0].asked == []
    assert session.close(HANG)


async def test_a_model_that_comes_as_another_is_asked_for_is_let_go_of(session, models, monkeypatch) -> None:
    """The loop learns of the first one only after it has begun to have the second one."""
    run, later = session.engine.run, list[asyncio.Task[None]]()

    def run_and_be_busy(key: object, job: Any, after: float = 0.0) -> Any:
        made = run(key, job, after)
        if key is LOADING and not later:
            later.append(load(session, Settings(threads=2)))
            eventually(lambda: models and models[0].described.is_set(), "no model comes")
        return made

    monkeypatch.setattr(session.engine, "run", run_and_be_busy)
    await load(session, Settings())
    await later[0]
    assert [model.closed for model in models] == [True, False]
    assert session.close(HANG)
    assert models[1].closed


class Download:
    """Says that it begins, and ends when it may: with an error, if there is one."""

    def __init__(self) -> None:
        self.may_end, self.error = threading.Event(), ""

    def __call__(self, settings: Settings, progress: Callable[[str, int], None], loaded: bool) -> None:
        progress("asking the hub", 0)
        eventually(self.may_end.is_set, "the download may not end")
        if self.error:
            raise ModelError(self.error)


async def downloading(
    models: list[Model], wanted: list[str], refused: str | None = None
) -> tuple[Session, Download, Any]:
    """A session whose first model is being downloaded; `wanted` are the names of the models that are loaded."""

    def load_model(settings: Settings, progress: Callable[[str, int], None]) -> Any:
        wanted.append(settings.model)
        if settings.model == refused:
            raise ModelError("refused")
        models.append(Model())
        return models[-1]

    session = Session(load_model, download := Download())
    loading = load(session, Settings(model="owner/coder"))
    tried = lambda: bool(wanted) and not (models and session.model.completer is None)  # noqa: E731
    await asyncio.to_thread(eventually, tried, "no model is loaded meanwhile")
    return session, download, loading


async def test_the_embedded_model_answers_until_the_first_is_downloaded() -> None:
    models, wanted = list[Model](), list[str]()
    session, download, loading = await downloading(models, wanted)
    session.open("a", "", "x")
    [answer] = await ask(session, asked("x"))
    assert (await answer).text == "after x" and wanted == [""]
    assert session.status.state == "loading" and "embedded model answers" in session.status.message
    download.may_end.set()
    await loading
    assert wanted == ["", "owner/coder"] and models[0].closed
    assert (session.status.state, session.status.fallback) == ("ready", "")
    assert session.close(HANG)


async def test_where_the_download_fails_the_embedded_model_goes_on() -> None:
    models, wanted = list[Model](), list[str]()
    session, download, loading = await downloading(models, wanted)
    download.error = "there is no such model"
    download.may_end.set()
    await loading
    assert wanted == [""] and not models[0].closed
    assert (session.status.state, session.status.fallback) == ("ready", "there is no such model")
    assert session.close(HANG)


async def test_where_the_embedded_model_cannot_be_loaded_either_the_download_goes_on() -> None:
    models, wanted = list[Model](), list[str]()
    session, download, loading = await downloading(models, wanted, refused="")
    download.may_end.set()
    await loading
    assert session.status.state == "ready" and wanted[-1] == "owner/coder"
    assert session.close(HANG)


async def test_another_model_is_wanted_while_the_first_is_downloaded() -> None:
    models, wanted = list[Model](), list[str]()
    session, download, loading = await downloading(models, wanted)
    download.may_end.set()
    await load(session, Settings(threads=2))
    await loading
    assert wanted[-1] == "" and session.status.state == "ready" and models[0].closed
    assert session.close(HANG)


NO_MEMORY = "there is not enough memory to load the model: end other programs or choose a smaller model"
UNUSABLE = (
    "loading the model failed, since /models/a.json cannot be used (Input/output error): check its disk and its"
)
REFUSED = "loading the model failed, since the system refused a part of it"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), NO_MEMORY),
        (OSError(errno.EIO, "Input/output error", "/models/a.json"), f"{UNUSABLE} permissions"),
        (
            OSError(errno.EMFILE, "Too many open files"),
            f"{REFUSED} (Too many open files): end other programs",
        ),
        (KeyError("x"), "loading the model failed by an error of the server (KeyError): see its log"),
    ],
)
async def test_a_failure_that_nobody_foresaw_has_a_cause_and_a_remedy(error: Exception, told: str) -> None:
    def refuse(settings: Settings, progress: Callable[[str, int], None]) -> Any:
        raise error

    session = Session(refuse)
    await load(session, Settings())
    assert (session.status.state, session.status.message) == ("error", told)
