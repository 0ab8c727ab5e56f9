"""How a client's models are loaded, and how they replace others."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from efim_ls.request import Status
from efim_ls.session.engine_thread import EngineClient, EngineThread
from efim_ls.settings import DEFAULTS, Settings
from model_runtime.cancel import Cancel, Cancelled
from model_runtime.errors import ModelError

if TYPE_CHECKING:
    from efim_ls.completion.completer import Completer

CLOSING = 1.0  # seconds that each part of closing may take
LOADING = object()  # key of the job that fetches or loads a model; completions have URIs as keys

# Defaults of the settings that belong to a named model and must not reach the embedded one.
NO_NAMED_MODEL: Mapping[str, Any] = {name: getattr(DEFAULTS, name) for name in ("model", "template", "engine")}

Progress = Callable[[str, int], None]

logger = logging.getLogger(__name__)


Load = Callable[[Settings, Progress], "Completer"]
Fetch = Callable[[Settings, Progress, bool], None]  # the last: whether another model is loaded


def nothing_to_fetch(settings: Settings, progress: Progress, beside: bool) -> None:
    """Fetch nothing, for models that are on this machine."""


def load_completer(settings: Settings, progress: Progress) -> Completer:
    """Load the configured model; raises ModelError if it cannot be used."""
    # Imported late: it takes a while, during which the client is already answered.
    from efim_ls.completion.shared_models import SharedModels

    return SharedModels(lasting=False).load(settings, progress)


def fetch_model(settings: Settings, progress: Progress, beside: bool) -> None:
    """Download the configured model if needed; raises ModelError if that fails or it cannot be used here."""
    from efim_ls.completion.models.kinds import kind_of  # imported late, likewise

    kind = kind_of(settings)
    kind.check(settings)
    kind.fetch(settings, progress, beside)


class ModelLoader:
    """The loaded model, and its replacement by another; the old one stays in use while the new one is downloaded.

    If no other is in use, the embedded one takes the configured model's place while that is downloaded, or if it
    cannot be loaded. Used on the event loop only. `adopted` is called after a model is put into use, and `released`
    before it is released.
    """

    def __init__(
        self,
        engine: EngineClient,
        load: Load,
        fetch: Fetch,
        adopted: Callable[[], None],
        released: Callable[[], None],
    ) -> None:
        """Download on a separate thread, which touches no tensors; load and close models on the engine thread."""
        self.completer: Completer | None = None
        self.status = Status("loading", "waiting for the editor's settings")
        self._description: dict[str, object] = {}
        self._loaded_for: Settings | None = None
        self._engine, self._load, self._fetch = engine, load, fetch
        self._adopted, self._released = adopted, released
        self._stands_in = False  # whether the embedded model is in use until the configured one is downloaded
        self._fetching = EngineThread()
        self._replaced: list[Completer] = []  # to close before the next is loaded: replaced, or not adopted
        self._wanted = object()

    @property
    def description(self) -> dict[str, object]:
        """What runs where and why; empty while no model is loaded."""
        return self._description if self.completer else {}

    def must_load(self, settings: Settings) -> bool:
        """Return whether these settings need another model than the one loaded or loading."""
        return settings.of_model != self._loaded_for

    async def load(self, settings: Settings, progress: Progress) -> bool:
        """Download and load the configured model; return whether one is ready, and set the status.

        Once a later call supersedes this one, it changes nothing more.
        """
        wanted = self._wanted = object()
        before, self._loaded_for = self._loaded_for, settings.of_model
        self.status, report = Status("loading", "the model is loading", self.status.fallback), _rising(progress)
        if before and (before.persist, before.private_files) != (settings.persist, settings.private_files):
            self._release()  # it would save by outdated settings
        try:
            status = await self._load_or_fall_back(settings, report, wanted)
        except Cancelled:
            return False
        if self._wanted is wanted:
            self.status = status
        return self._wanted is wanted and status.state == "ready"

    def allow(self, seconds: float) -> None:
        """Set the seconds of any minute in which models may compute ahead of need; zero forbids it."""
        self._engine.allow(seconds)
        if self.completer:
            self.completer.allow(seconds)

    def close(self, seconds: float) -> bool:
        """End both threads, then the models; return false if a thread is still at work after `seconds`."""
        fetched = self._fetching.close(seconds)
        return self._engine.close(seconds) and self._close_models(seconds) and fetched

    async def leave(self, seconds: float) -> None:
        """Close the models on an engine thread that goes on; each has `seconds` to save its rows."""
        self._wanted = object()
        self._fetching.supersede(LOADING)
        self._fetching.close(0)
        await self._engine.run(LOADING, lambda _: self._close_models(seconds))

    def _close_models(self, seconds: float) -> bool:
        """Close the models, each with `seconds` to save its rows; return whether all have ended."""
        have_ended = True
        for each in [*self._replaced, *([self.completer] if self.completer else [])]:
            try:
                have_ended = each.close(seconds) and have_ended
            except Exception as error:  # the next one still has something to save
                logger.error("a model could not be closed", exc_info=error)
        return have_ended

    async def _load_or_fall_back(self, settings: Settings, progress: Progress, wanted: object) -> Status:
        """Load the configured model; if that fails and no other is in use, load the embedded one."""
        is_adopted = False
        try:
            await self._fetch_first(settings, progress, wanted)
            await self._adopt(settings, progress)
            is_adopted = True
            await self._open_elsewhere(self._while_wanted(progress, wanted))
        except Cancelled:
            raise
        except Exception as error:
            cause = _failure(error)
        else:
            return Status("ready", "the model is ready")
        if self._wanted is not wanted:
            raise Cancelled
        if is_adopted:
            return Status("ready", f"using the embedded model, because {cause}", fallback=cause)
        if self.completer and not self.status.fallback and not self._stands_in:
            return Status("error", f"{cause}; the previous model stays in use")
        if not settings.model:
            return Status("error", cause)
        try:
            if not self._stands_in:
                await self._adopt(replace(settings, **NO_NAMED_MODEL), progress)
        except Cancelled:
            raise
        except Exception as error:
            _failure(error)  # logged; the user has to mend the first cause
            return Status("error", cause)
        return Status("ready", f"using the embedded model, because {cause}", fallback=cause)

    async def _adopt(self, settings: Settings, progress: Progress) -> None:
        """Put a model that is on this machine into use, in place of the current model."""
        self._release()
        loading = self._engine.run(LOADING, lambda cancel: self._replace(settings, progress, cancel))
        completer, self._description = await loading
        self._replaced.remove(completer)
        self.completer = completer
        completer.allow(self._engine.idle_seconds)
        self._adopted()

    def _while_wanted(self, progress: Progress, wanted: object) -> Progress:
        """Return a callback that says nothing once another model is wanted: others may wait for this one."""

        def report(message: str, percent: int) -> None:
            if self._wanted is wanted:
                progress(message, percent)

        return report

    async def _open_elsewhere(self, progress: Progress) -> None:
        """Wait until the larger model is open; the embedded one answers meanwhile. Raises ModelError."""
        opening = self.completer and self.completer.open_elsewhere(progress)
        if opening is not None:
            await asyncio.shield(asyncio.wrap_future(opening))  # others may wait for it as well

    async def _fetch_first(self, settings: Settings, progress: Progress, wanted: object) -> None:
        self._engine.supersede(LOADING)
        loaded, begun, loop = self.completer is not None, asyncio.Event(), asyncio.get_running_loop()

        def report(message: str, percent: int) -> None:
            loop.call_soon_threadsafe(begun.set)
            progress(message, percent)

        fetched = self._fetching.run(LOADING, lambda cancel: self._fetch(settings, _unless(cancel, report), loaded))
        try:
            if settings.model and not loaded:
                await self._adopt_until(fetched, begun, settings)
        finally:
            await fetched
        if self._wanted is not wanted:
            raise Cancelled

    async def _adopt_until(self, fetched: asyncio.Future[None], begun: asyncio.Event, settings: Settings) -> None:
        """Put the embedded model into use, once the download of the configured one has `begun`, until it is done."""
        waiting = asyncio.ensure_future(begun.wait())
        await asyncio.wait({fetched, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if fetched.done():
            return
        try:
            await self._adopt(replace(settings, **NO_NAMED_MODEL), lambda message, percent: None)
        except Cancelled:
            raise
        except Exception as error:
            _failure(error)  # logged; the configured model may still come
        else:
            self._stands_in = True
            self.status = replace(self.status, message="the embedded model answers until the model is downloaded")

    def _release(self) -> None:
        """Take the loaded model out of use; it is closed before the next one is loaded."""
        self._stands_in = False
        if self.completer is not None:
            self._replaced.append(self.completer)
        self.completer = None
        self._released()

    def _replace(self, settings: Settings, progress: Progress, cancel: Cancel) -> tuple[Completer, dict[str, object]]:
        """Close old models and load another, on the engine thread; the next call closes it if it is not adopted."""
        if self._replaced:
            while self._replaced:
                self._replaced.pop().close(CLOSING, settings)
            gc.collect()  # cycles may keep the replaced model alive, and its arenas are large
        completer = self._load(settings, _unless(cancel, progress))
        self._replaced.append(completer)  # the caller may be superseded until it adopts the model
        return completer, completer.describe()


def _failure(error: Exception) -> str:
    """Return the message for a failed load; log unexpected errors."""
    if isinstance(error, ModelError):
        return str(error)
    logger.error("the model could not be loaded", exc_info=error)
    match error:
        case MemoryError():
            return "there is not enough memory to load the model: end other programs or choose a smaller model"
        case OSError(strerror=str(why), filename=str(path)):
            return (
                f"loading the model failed, since {path} cannot be used ({why}): check its disk and its permissions"
            )
        case OSError(strerror=str(why)):
            return f"loading the model failed, since the system refused a part of it ({why}): end other programs"
        case _:
            return f"loading the model failed by an error of the server ({type(error).__name__}): see its log"


def _rising(progress: Progress) -> Progress:
    """Return a progress callback whose percentage never falls, although each part starts at 0."""
    most = 0

    def report(message: str, percent: int) -> None:
        nonlocal most
        most = max(most, percent)
        progress(message, most)

    return report


def _unless(cancel: Cancel, progress: Progress) -> Progress:
    """Return a progress callback that skips repeats and raises Cancelled once the model is no longer wanted."""
    reported: tuple[str, int] | None = None

    def report(message: str, percent: int) -> None:
        nonlocal reported
        cancel.check()
        if reported != (message, percent):
            reported = message, percent
            progress(message, percent)

    return report
