"""Work that no caller waits for: prefetching what the next request will need, and saving keys and values."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from efim_ls.request import Request, Upcoming
from efim_ls.session.documents import IdleTimer, OpenDocument, OpenDocuments
from efim_ls.session.engine_thread import EngineClient
from efim_ls.session.loader import ModelLoader
from model_runtime.cancel import Cancel, Cancelled

if TYPE_CHECKING:
    from efim_ls.completion.completer import Completer

SENT = 0.005  # seconds within which an answer is on its way: work that began before would hold it up
STILL = 0.1  # seconds: a held key moves the cursor several times within it
REST = 5.0  # seconds without a request after an answer: frames that change sooner are not worth saving
LONG_REST = 60.0  # the same until memory is given back: reading it again takes milliseconds
FLUSH_TIMEOUT, FLUSH_POLL = 60.0, 0.01  # seconds that pending writes may take, and between checks

FORGETTING = object()  # key of the job that forgets suggestions; completions have URIs as keys
RESTING = object()  # key of the idle work that gives memory back

logger = logging.getLogger(__name__)


class BackgroundWork:
    """Prefetches and saves for each document, on the idle engine thread. Used on the event loop only."""

    def __init__(
        self,
        engine: EngineClient,
        documents: OpenDocuments,
        model: ModelLoader,
        at_rest: Callable[[OpenDocument], None],
        request_at: Callable[[OpenDocument, int], Request],
    ) -> None:
        """Call `at_rest` for a document that has not been asked about for a while.

        `request_at` returns what prefetching at an offset of a document is for.
        """
        self._engine, self._documents, self._model, self._at_rest = engine, documents, model, at_rest
        self._request_at = request_at
        self._long_rest = IdleTimer()

    @property
    def _completer(self) -> Completer | None:
        return self._model.completer

    def rested(self, document: OpenDocument) -> None:
        """Prefetch for a document's cursor position once the user has paused."""
        document.prefetch_timer.start(STILL, lambda: self._prefetch_at_cursor(document))

    def answered(self, document: OpenDocument, request: Request, suggested: str) -> None:
        """Prefetch for the request that follows if the suggestion is accepted; save once the user has paused."""
        document.prefetch_timer.start(SENT, lambda: self._prepare(document, Upcoming(accepted(request, suggested))))
        document.save_timer.start(REST, lambda: self._rest(document))
        self._long_rest.start(LONG_REST, self._give_back)

    def prefetch_rested(self, document: OpenDocument, cursor: int) -> None:
        """Prefetch for an offset where the cursor rests; its current suggestion stays as it is."""
        request = self._request_at(document, cursor)
        answered = document.last_answer(request.text, request.cursor)
        is_shown = answered is not None and bool(answered.text)
        if self._documents.why_off(request.uri, len(request.text)) is None:
            self._prepare(document, Upcoming(request, "accepted" if is_shown else "rested"))

    def drop_prefetch(self, document: OpenDocument) -> None:
        """Drop all prefetching for a document."""
        document.prefetch_timer.cancel()
        self._engine.drop_idle(document.uri)

    def drop(self, document: OpenDocument) -> None:
        """Drop all work for a document: prefetching, saving and its request, whose callers get `Cancelled`."""
        self.drop_prefetch(document)
        document.save_timer.cancel()
        self._engine.drop_idle(_saving(document.uri))
        self._engine.supersede(document.uri)

    def drop_all(self) -> None:
        """Drop all work: a waiting request would reach a model that is being released."""
        self._long_rest.cancel()
        for document in self._documents:
            self.drop(document)

    def forget_suggestions(self) -> None:
        """Make the model forget its suggestions; nothing is typed through from then on."""
        if (completer := self._completer) is not None:
            forgetting = self._engine.run(FORGETTING, lambda _: completer.forget_suggestions())
            forgetting.add_done_callback(_log_failure)

    def close_document(self, uri: str, save: bool) -> None:
        """Make the model forget a document; with `save`, its keys and values are saved."""
        if (completer := self._completer) is None:
            return
        closing = self._engine.run(("close", uri), lambda _: completer.close_document(uri, save))
        closing.add_done_callback(_log_failure)
        closing.add_done_callback(lambda _: self._long_rest.start(LONG_REST, self._give_back))
        if save:
            self._save(uri)

    async def settled(self) -> None:
        """Begin what waits for the user to pause, and wait until nothing is queued, running or unwritten.

        Work that waits for the idle budget is left.
        """
        await self._quiet()
        for document in self._documents:
            document.save_timer.fire()
        await self._quiet()
        end = asyncio.get_running_loop().time() + FLUSH_TIMEOUT
        while (model := self._completer) and not model.flush(0) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(FLUSH_POLL)

    async def _quiet(self) -> None:
        await self._engine.settled()
        while waiting := [document for document in self._documents if document.prefetch_timer.waiting]:
            for document in waiting:
                document.prefetch_timer.fire()
            await self._engine.settled()

    def _prefetch_at_cursor(self, document: OpenDocument) -> None:
        """Prefetch for a document's cursor or, if it is unknown, for the document's beginning."""
        if document.cursor is not None:
            self.prefetch_rested(document, document.cursor)
        elif self._documents.why_off(document.uri) is None:
            context = self._request_at(document, 0).context
            opened = Request(document.uri, document.public, 0, language=document.language, context=context)
            self._prepare(document, Upcoming(opened, "opened"))

    def _prepare(self, document: OpenDocument, place: Upcoming) -> None:
        if (completer := self._completer) is None:
            return
        document.prefetch_timer.cancel()
        if self._engine.idle_seconds > 0:
            self._engine.run_idle(document.uri, lambda cancel: completer.prepare(place, cancel))

    def _rest(self, document: OpenDocument) -> None:
        self._save(document.uri)
        self._at_rest(document)

    def _give_back(self) -> None:
        def rest(_: Cancel) -> bool:
            if (completer := self._completer) is not None:
                completer.rest(LONG_REST)
            return True

        self._engine.run_idle(RESTING, rest, budgeted=False)

    def _save(self, uri: str) -> None:
        def save(cancel: Cancel) -> bool:
            completer = self._completer  # the model that is loaded when the job runs
            return completer is None or completer.save(uri, cancel)

        self._engine.run_idle(_saving(uri), save, budgeted=False)


def accepted(request: Request, suggested: str) -> Request:
    """Return the request that follows if the suggestion is accepted."""
    before, after = request.text[: request.cursor] + suggested, request.text[request.cursor :]
    return replace(request, text=before + after, cursor=len(before))


def _saving(uri: str) -> tuple[str, str]:
    """Return the key of the idle work that saves a document."""
    return "save", uri


def _log_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) and not isinstance(error, Cancelled):
        logger.error("the model failed to forget a document", exc_info=error)
