"""The contract of a loaded model, as the session uses it, and how one takes the place of another."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Protocol

from efim_ls.request import Ahead, Answer, Request
from efim_ls.session.engine_thread import EngineThread, Job, Stopped, Superseded
from efim_ls.settings import Settings
from model_runtime.errors import ModelError

PARTING = 1.0  # seconds that each part of an end may take
LOADING = object()  # the key of the job that fetches or loads a model; those of completions are URIs

Progress = Callable[[str, int], None]

logger = logging.getLogger(__name__)


class Completer(Protocol):
    """A loaded model. Used on the engine thread only, save for what says otherwise."""

    def complete(self, request: Request, stopped: Stopped, /) -> Answer:
        """Answer a request; soon after `stopped()` is true, as superseded."""
        ...

    def foresee(self, request: Request, /) -> Job[bool]:
        """Work that computes ahead what a request will need."""
        ...

    def foresee_opened(self, uri: str, text: str, /) -> Job[bool]:
        """Work that computes ahead what any first request in a document will need."""
        ...

    def explain(self, request: Request, /) -> dict[str, object]:
        """Tell what a request would send and cost."""
        ...

    def forget(self, uri: str, /) -> None:
        """Drop what is known of a document that was closed."""
        ...

    def drop(self, uri: str, /) -> None:
        """The same for one of which nothing more is to be kept."""
        ...

    def keep(self, uri: str, stopped: Stopped, /) -> bool:
        """Write behind what was computed for a document, also after it was closed; false if it was stopped."""
        ...

    def flush(self, seconds: float, /) -> bool:
        """Wait until what is kept is written; on any thread."""
        ...

    def close(self, seconds: float, then: Settings | None = None, /) -> None:
        """Write behind all that was computed, as far as the settings that come `then` allow it, and end."""
        ...

    def describe(self) -> dict[str, object]:
        """What runs where, and why."""
        ...

    @property
    def ahead(self) -> Ahead:
        """What was computed ahead of need; on any thread."""
        ...

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What is kept where; on any thread."""
        ...


Load = Callable[[Settings, Progress], Completer]
Fetch = Callable[[Settings, Progress, bool], None]  # the last: whether another model is loaded meanwhile


def nothing_to_fetch(settings: Settings, progress: Progress, beside: bool) -> None:
    """For models that are all here."""


class Loader:
    """Loads models, one in place of another; what has to be fetched comes while that one goes on.

    Used on the event loop only. What is superseded by a later call raises `Superseded`.
    """

    def __init__(self, engine: EngineThread, load: Load, fetch: Fetch) -> None:
        """Fetch on a thread of its own, which touches no tensors; let go of models and load on the engine thread."""
        self._engine, self._load, self._fetch = engine, load, fetch
        self._fetching = EngineThread()
        self._replaced: list[Completer] = []  # models to let go of before the next: replaced, or not taken yet
        self._wanted = object()

    async def fetch(self, settings: Settings, progress: Progress, beside: bool) -> None:
        """Have all here that loading needs; `beside` a model that is loaded and may go on."""
        wanted = self._wanted = object()
        self._engine.supersede(LOADING)
        await self._fetching.run(LOADING, lambda stopped: self._fetch(settings, _unless(stopped, progress), beside))
        if self._wanted is not wanted:
            raise Superseded

    def replace(self, completer: Completer) -> None:
        """Have a model let go of before the next one is loaded."""
        self._replaced.append(completer)

    async def load(self, settings: Settings, progress: Progress) -> tuple[Completer, dict[str, object]]:
        """Load a model, and describe it."""
        loaded = await self._engine.run(LOADING, lambda stopped: self._in_place(settings, progress, stopped))
        self._replaced.remove(loaded[0])
        return loaded

    def close(self, seconds: float, completer: Completer | None) -> bool:
        """End both threads, then the model that is loaded; false if one is still at work after so long."""
        fetched = self._fetching.close(seconds)
        if not self._engine.close(seconds):
            return False
        for each in [*self._replaced, *([completer] if completer else [])]:
            each.close(seconds)
        return fetched

    def _in_place(
        self, settings: Settings, progress: Progress, stopped: Stopped
    ) -> tuple[Completer, dict[str, object]]:
        """Let go of models, then load another; one that nobody wants any more is let go of, too."""
        if self._replaced:
            while self._replaced:
                self._replaced.pop().close(PARTING, settings)
            gc.collect()  # cycles may hold the model that is being replaced, and its arenas are large
        completer = self._load(settings, _unless(stopped, progress))
        self._replaced.append(completer)  # who asked may be superseded until the very moment it is taken
        return completer, completer.describe()


def may_stay(loaded: Settings, wanted: Settings) -> bool:
    """Whether a model that was loaded for some settings may go on until others have theirs: it keeps by its own."""
    return (loaded.persist, loaded.private_files) == (wanted.persist, wanted.private_files)


def failure(error: Exception) -> str:
    """What to tell of a model that could not be loaded; what nobody foresaw is logged."""
    if isinstance(error, ModelError):
        return str(error)
    logger.error("the model could not be loaded", exc_info=error)
    return f"loading the model failed ({type(error).__name__}): see the log"


def rising(progress: Progress) -> Progress:
    """The same progress, of parts that each begin anew: what it tells never falls."""
    most = 0

    def tell(message: str, percent: int) -> None:
        nonlocal most
        most = max(most, percent)
        progress(message, most)

    return tell


def _unless(stopped: Stopped, progress: Progress) -> Progress:
    """Tell what is new of the progress; where nobody wants the model any more, end its loading there."""
    told: tuple[str, int] | None = None

    def tell(message: str, percent: int) -> None:
        nonlocal told
        if stopped():
            raise Superseded
        if told != (message, percent):
            told = message, percent
            progress(message, percent)

    return tell
