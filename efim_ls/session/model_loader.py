"""The contract of a loaded model, as the session uses it, and how one replaces another."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Protocol

from efim_ls.request import Ahead, Answer, Request, Status
from efim_ls.session.engine_thread import EngineThread, Job, ShouldStop, Superseded
from efim_ls.settings import Settings
from model_runtime.errors import ModelError

CLOSING = 1.0  # seconds that each part of closing may take
LOADING = object()  # the key of the job that fetches or loads a model; those of completions are URIs

Progress = Callable[[str, int], None]

logger = logging.getLogger(__name__)


class CompletionBackend(Protocol):
    """A loaded model. Used on the engine thread only, save for what says otherwise."""

    def complete(self, request: Request, stopped: ShouldStop, /) -> Answer:
        """Answer a request; soon after `stopped()` is true, as superseded."""
        ...

    def prefetch(self, request: Request, /) -> Job[bool]:
        """Return work that computes ahead what a request will need."""
        ...

    def prefetch_opened(self, uri: str, text: str, /) -> Job[bool]:
        """Return work that computes ahead what any first request in a document will need."""
        ...

    def explain(self, request: Request, /) -> dict[str, object]:
        """Return what a request would send and cost."""
        ...

    def close_document(self, uri: str, save: bool, /) -> None:
        """Forget a document; if it is to be saved, what `save` needs stays until then."""
        ...

    def save(self, uri: str, stopped: ShouldStop, /) -> bool:
        """Save what was computed for a document, open or closed; return false if it was stopped."""
        ...

    def flush(self, seconds: float, /) -> bool:
        """Wait until what was saved is written; on any thread."""
        ...

    def close(self, seconds: float, then: Settings | None = None, /) -> None:
        """Save all that was computed, as far as the settings that follow allow it, and end."""
        ...

    def describe(self) -> dict[str, object]:
        """Return what runs where, and why."""
        ...

    @property
    def ahead(self) -> Ahead:
        """What was computed ahead of need; on any thread."""
        ...

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What each tier holds; on any thread."""
        ...


Load = Callable[[Settings, Progress], CompletionBackend]
Fetch = Callable[[Settings, Progress, bool], None]  # the last: whether another model is loaded meanwhile


def nothing_to_fetch(settings: Settings, progress: Progress, beside: bool) -> None:
    """Fetch nothing: for models that are on this machine."""


class ModelLoader:
    """The loaded model, and how another one replaces it; while one is fetched, the one before goes on.

    Used on the event loop only. `released` is called before a model is let go of.
    """

    def __init__(self, engine: EngineThread, load: Load, fetch: Fetch, released: Callable[[], None]) -> None:
        """Fetch on a thread of its own, which touches no tensors; load and close models on the engine thread."""
        self.completer: CompletionBackend | None = None
        self.status = Status("loading", "waiting for the client")
        self._description: dict[str, object] = {}
        self._loaded_for: Settings | None = None
        self._engine, self._load, self._fetch, self._released = engine, load, fetch, released
        self._fetching = EngineThread()
        self._replaced: list[CompletionBackend] = []  # models to close before the next: replaced, or not taken yet
        self._wanted = object()

    @property
    def description(self) -> dict[str, object]:
        """What runs where and why; empty while no model is loaded."""
        return self._description if self.completer else {}

    def must_load(self, settings: Settings) -> bool:
        """Return whether these settings need another model than the one that is loaded or being loaded."""
        return settings.of_model != self._loaded_for

    async def load(self, settings: Settings, progress: Progress) -> bool:
        """Fetch and load the model that the settings name; return whether it is ready.

        The status tells what came of it. A call that a later one supersedes changes nothing more.
        """
        before, self._loaded_for = self._loaded_for, settings.of_model
        self.status, tell = Status("loading", "the model is being loaded"), _rising(progress)
        if before and (before.persist, before.private_files) != (settings.persist, settings.private_files):
            self._release()  # it would save by settings that hold no more
        try:
            await self._fetch_first(settings, tell)
            self._release()
            loading = self._engine.run(LOADING, lambda stopped: self._replace(settings, tell, stopped))
            completer, self._description = await loading
            self._replaced.remove(completer)
            self.completer = completer
        except Superseded:
            return False
        except Exception as error:
            stays = "; the previous model stays in use" if self.completer else ""
            self.status = Status("error", f"{_failure(error)}{stays}")
            return False
        self.status = Status("ready", "the model is ready")
        return True

    def close(self, seconds: float) -> bool:
        """End both threads, then the models; return false if a thread is still at work after `seconds`."""
        fetched = self._fetching.close(seconds)
        if not self._engine.close(seconds):
            return False
        for each in [*self._replaced, *([self.completer] if self.completer else [])]:
            each.close(seconds)
        return fetched

    async def _fetch_first(self, settings: Settings, progress: Progress) -> None:
        wanted = self._wanted = object()
        self._engine.supersede(LOADING)
        beside = self.completer is not None
        await self._fetching.run(LOADING, lambda stopped: self._fetch(settings, _unless(stopped, progress), beside))
        if self._wanted is not wanted:
            raise Superseded

    def _release(self) -> None:
        """Let go of the loaded model, to be closed before the next one is loaded."""
        if self.completer is not None:
            self._replaced.append(self.completer)
        self.completer = None
        self._released()

    def _replace(
        self, settings: Settings, progress: Progress, stopped: ShouldStop
    ) -> tuple[CompletionBackend, dict[str, object]]:
        """Close models and load another, on the engine thread; one that is not taken is closed by the next call."""
        if self._replaced:
            while self._replaced:
                self._replaced.pop().close(CLOSING, settings)
            gc.collect()  # cycles may hold the model that is being replaced, and its arenas are large
        completer = self._load(settings, _unless(stopped, progress))
        self._replaced.append(completer)  # the caller may be superseded until the very moment it takes it
        return completer, completer.describe()


def _failure(error: Exception) -> str:
    """Return what to tell of a model that could not be loaded; unforeseen errors are logged."""
    if isinstance(error, ModelError):
        return str(error)
    logger.error("the model could not be loaded", exc_info=error)
    return f"loading the model failed ({type(error).__name__}): see the log"


def _rising(progress: Progress) -> Progress:
    """Return the same progress, of parts that each start at 0, so that what it tells never falls."""
    most = 0

    def tell(message: str, percent: int) -> None:
        nonlocal most
        most = max(most, percent)
        progress(message, most)

    return tell


def _unless(stopped: ShouldStop, progress: Progress) -> Progress:
    """Return progress that tells what is new, and ends the loading once the model is not wanted any more."""
    told: tuple[str, int] | None = None

    def tell(message: str, percent: int) -> None:
        nonlocal told
        if stopped():
            raise Superseded
        if told != (message, percent):
            told = message, percent
            progress(message, percent)

    return tell
