"""A larger model in this process: a thread that gives way opens it, and alone touches its engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import replace

from efim_ls.completion.answerers.elsewhere import Progress, Told
from efim_ls.completion.completer import CLOSING, Completer
from efim_ls.completion.giving_way import answering, give_way, hurrying
from efim_ls.completion.idle_budget import IdleBudget
from efim_ls.completion.model_in_use import ModelInUse, summary
from efim_ls.completion.models.open import OpenedModel
from efim_ls.completion.models_by_language import Models
from efim_ls.languages.table import ANY
from efim_ls.request import Ahead, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel, Cancelled
from model_runtime.decoder.native.library import wait_for_answers
from model_runtime.errors import ModelError
from model_runtime.prompt.context import ContextBudget

logger = logging.getLogger(__name__)


class LargerModel:
    """A larger model, its thread, and the names of the clients that use it. Used on any thread.

    Helper threads of the decoder are started by this thread, and inherit its priority.
    """

    def __init__(self, name: str, load: Callable[[Progress], OpenedModel]) -> None:
        """Load nothing until it is to be opened; `load` raises ModelError."""
        self.name, self.clients = name, set[str]()
        self.budget = IdleBudget(0)  # for computing ahead, of all clients
        self._load, self._parts = load, 1
        self._thread = ThreadPoolExecutor(1, "larger model", give_way)
        self._ending = threading.Event()
        self._opening: Future[OpenedModel] | None = None

    @property
    def working(self) -> set[str]:
        """The clients that work with the model: all that use it, unless it cannot be opened."""
        opening = self._opening
        return set() if opening and opening.done() and opening.exception() else self.clients

    @property
    def opened(self) -> OpenedModel | None:
        """The model, None while it is not open."""
        opening = self._opening
        return None if opening is None or not opening.done() or opening.exception() else opening.result()

    def open(self, progress: Progress) -> Future[OpenedModel]:
        """Open the model, unless that is done or under way; the future raises ModelError if it cannot be used."""
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            self._opening = self._thread.submit(self._open, progress)
        return self._opening

    def submit(self, job: Callable[[], None]) -> Future[None]:
        """Have a job done on the thread, behind those that were submitted before, once no key waits."""

        def work() -> None:
            wait_for_answers()
            job()

        return self._thread.submit(work)

    def share_memory(self, parts: int) -> None:
        """Have it use one of `parts` equal parts of the memory for keys and values, once it is open."""
        self._parts = parts
        if self._opening is not None:
            self.submit(self._share_memory)

    def close(self, seconds: float) -> None:
        """Write the queue for up to `seconds`, and end."""

        def end() -> None:
            opened, self._opening = self.opened, None
            if opened:
                opened.close(seconds, write=True)

        self._ending.set()
        closing = self._thread.submit(end)
        self._thread.shutdown(wait=False)
        with hurrying():
            wait([closing], max(seconds, CLOSING))  # its memory may be needed
        if closing.done():
            closing.result()

    def _open(self, progress: Progress) -> OpenedModel:
        def report(message: str, percent: int) -> None:
            if self._ending.is_set():
                raise Cancelled
            progress(message, percent)

        try:
            opened = self._load(report)
        except ModelError as error:
            logger.warning("the model in %s cannot be used: %s", self.name, str(error))  # logs hide objects
            raise
        opened.engine.share_memory(self._parts)
        return opened

    def _share_memory(self) -> None:
        if opened := self.opened:
            opened.engine.share_memory(self._parts)


class LargerDocuments:
    """A `ModelElsewhere` in this process: a client's documents, completed by a model that clients share."""

    def __init__(self, shared: LargerModel, settings: Settings, client: str) -> None:
        """Use the model for one more client, with the `settings` that name it."""
        self.source = f"from the model in {shared.name}"
        self.trouble = ""  # a model that cannot be opened is named in the status
        self._shared, self._settings, self._client = shared, settings, client
        self._completer: Completer | None = None  # belongs to the model's thread
        shared.clients.add(client)
        self.allow(settings.prefetch_seconds_per_minute)

    @property
    def languages(self) -> Collection[str]:
        """The languages that it answers in, none while it is not open; on any thread."""
        if (opened := self._shared.opened) is None:
            return ()
        return self._settings.model_languages or opened.engine.describe().languages or (ANY,)

    @property
    def context_budget(self) -> ContextBudget:
        """The most tokens of each part of other files' text; on any thread."""
        return opened.budget.context if (opened := self._shared.opened) else ()

    def open(self, progress: Progress) -> Future[OpenedModel]:
        """Open the model; the future raises ModelError if it cannot be used. On any thread."""
        return self._shared.open(progress)

    def submit(self, job: Callable[[], None]) -> Future[None]:
        """Have a job done on the model's thread; on any thread."""
        return self._shared.submit(job)

    def answering(self) -> AbstractContextManager[None]:
        """Have the model wait, between the parts of its passes, while a key waits for an answer; on any thread."""
        return answering()

    def allow(self, seconds: float) -> None:
        """Set how many seconds of a minute the model may compute ahead of need; on any thread."""
        self._shared.budget.allow(seconds, self._client)

    def answer(self, request: Request, cancel: Cancel) -> Told | None:
        """Answer a request; None while the model is not open."""
        if (completer := self._use()) is None:
            return None
        answer = completer.complete(replace(request, counts=None), cancel)  # they are another tokenizer's
        origin = completer.made_from(request.uri)
        return Told(answer, origin.likelihood if origin and not origin.start and answer.text else None)

    def prepare(self, place: Upcoming, cancel: Cancel) -> None:
        """Compute what a completion will need, until `cancel()` is true or the clients' time for it is spent."""
        budget = self._shared.budget
        if (completer := self._use()) and budget.left() > 0:
            with budget.spending():
                completer.prepare(place, Cancel(lambda: cancel() or budget.left() <= 0))

    def save(self, uri: str, cancel: Cancel) -> bool:
        """Save a document's frames with their keys and values; return false if stopped before the end."""
        return self._completer is None or self._completer.save(uri, cancel)

    def close_document(self, uri: str, save: bool) -> None:
        """Forget a document and release its arenas; with `save`, its frames stay until saved."""
        if self._completer:
            self._completer.close_document(uri, save)

    def forget_suggestions(self) -> None:
        """Forget the suggestions in all documents."""
        if self._completer:
            self._completer.forget_suggestions()

    def rest(self, seconds: float) -> None:
        """Give back the memory of places where nobody has worked for so long."""
        if self._completer:
            self._completer.rest(seconds)

    def close(self, seconds: float, then: Settings | None) -> bool:
        """Save everything, for up to `seconds`, and leave the model to others; return whether that is done."""
        self._shared.budget.allow(0, self._client)
        closing = self.submit(lambda: self._close(seconds, then))
        with hurrying():
            wait([closing], seconds)
        self._shared.clients.discard(self._client)
        if closing.done():
            closing.result()
        return closing.done()

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all that was saved is written; return whether it is. On any thread."""
        opened = self._shared.opened
        return opened is None or opened.engine.flush(seconds)

    def describe(self) -> dict[str, object]:
        """Return the model's name, empty while it is not open; on any thread."""
        return {"remote": "", "larger": self._shared.name if self._shared.opened else ""}

    def summaries(self) -> list[dict[str, object]]:
        """Return the model, once it is open, as `ModelInUse.summary` does; on any thread."""
        opened = self._shared.opened
        return [summary(opened.engine, self.languages)] if opened else []

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What each tier of the model holds; on any thread."""
        return completer.tiers if (completer := self._completer) else []

    @property
    def ahead(self) -> Ahead:
        """Totals of prefetching; on any thread."""
        return completer.ahead if (completer := self._completer) else Ahead()

    def _use(self) -> Completer | None:
        """Return the client's completer, None while the model is not open."""
        if self._completer is None and (opened := self._shared.opened):
            settings = self._settings
            model = ModelInUse(opened.for_client(settings, self._leave), settings, self._client)
            self._completer = Completer(Models(model, settings), settings)
        return self._completer

    def _leave(self) -> bool:
        """Leave the model; return whether no other client uses it."""
        self._shared.clients.discard(self._client)
        return not self._shared.clients

    def _close(self, seconds: float, then: Settings | None) -> None:
        completer, self._completer = self._completer, None
        if completer:
            completer.close(seconds, then)
