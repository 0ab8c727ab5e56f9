"""A client's session: documents, settings, model, requests and statistics. Knows no LSP types."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from efim_ls.access.reasons import Refusal, as_dict, explain_refusal, refusal
from efim_ls.access.rules import Rules
from efim_ls.paths import real_path
from efim_ls.request import Ahead, Answer, Reason, Request, Status
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.session.engine_thread import EngineClient, EngineThread, Job
from efim_ls.session.loader import Fetch, Load, ModelLoader, Progress, nothing_to_fetch
from efim_ls.session.prefetch import BackgroundWork
from efim_ls.session.requests import RequestQueue
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.text.document import Change, Encoding
from efim_ls.usage.counters import Counters
from efim_ls.usage.history import UsageHistory
from efim_ls.usage.suggestions import Offers
from efim_ls.workspace.excerpts.workspace_excerpts import RetrievalPlace
from efim_ls.workspace.index import IndexStatus, Scope
from efim_ls.workspace.thread import Repository
from model_runtime.cancel import Cancel, Cancelled
from model_runtime.prompt.excerpts import NO_EXCERPT_BUDGET, NO_EXCERPTS

SETTLING = 600.0  # seconds that indexing a workspace may take before a caller is told that all is settled
# Below it nothing is shown unasked (`min_confidence`), so that looking for code there can spoil no suggestion. Four
# of five retrievals change nothing or harm (arXiv 2403.10059), and the model's own doubt tells which.
UNSURE = DEFAULTS.min_confidence
STILL_TYPING = 0.3  # seconds after a key in which another one is likely: the repository's thread waits

logger = logging.getLogger(__name__)


class Session:
    """One client's session. Used on the event loop only; jobs that touch the model run on the engine thread.

    `on_index_status` is called on the repository's thread when the state of its index changes.
    """

    def __init__(self, load: Load, fetch: Fetch = nothing_to_fetch, engine: EngineThread | None = None) -> None:
        """Share an engine thread with other sessions, or own one."""
        self.settings = Settings()
        self.on_index_status: Callable[[IndexStatus], None] = lambda _: None
        self.engine = EngineClient(engine or EngineThread())
        self.repository = Repository(
            lambda: self.engine.is_typing(STILL_TYPING),
            lambda status: self.on_index_status(status),
            self._excerpts_changed,
        )
        self._excerpts = NO_EXCERPT_BUDGET  # of other files' text, for which the model's prompts have room
        self._loop: asyncio.AbstractEventLoop | None = None  # known once excerpts are chosen
        self.history = UsageHistory(lambda: self.settings, logger.warning)
        self.counters = Counters(self.history.add)
        self.offers = Offers(self.counters)
        self.documents = OpenDocuments(self.counters)
        self.requests = RequestQueue(self.engine, self._completion)
        self._model = ModelLoader(self.engine, load, fetch, released=lambda: self.background.drop_all())
        self.background = BackgroundWork(
            self.engine, self.documents, self._model, self.index_document, self._request_ahead
        )
        self._folders: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """Whether completions are available now."""
        return self._model.status if self.settings.enabled else Status("off", refusal("disabled").why)

    def describe(self) -> dict[str, object]:
        """Return the status, what is indexed and, once a model is loaded, what runs where and why."""
        index = self.repository.status
        return asdict(self.status) | self._model.description | {"repository": asdict(index) if index else None}

    def configure(self, settings: Settings) -> bool:
        """Adopt settings; return whether the model must be loaded for them."""
        self.settings = settings
        self.engine.allow(settings.ahead_seconds_per_minute if settings.enabled else 0)
        self._adopt_rules()
        return settings.enabled and self._model.must_load(settings)

    def work_in(self, folders: Iterable[str]) -> None:
        """Adopt the URIs of the client's workspace folders."""
        self._folders = tuple(folders)
        self._adopt_rules()

    async def load(self, progress: Progress) -> None:
        """Load the configured model; the status tells the outcome."""
        if await self._model.load(self.settings, progress):
            self._adopt_scope()
            if document := self.documents.last_used:
                self.background.rested(document)

    def open(self, uri: str, language: str, text: str, version: int | None = None) -> OpenDocument:
        """Open a document and return it."""
        document = self.documents.open(uri, language, text, version)
        self.background.rested(document)
        self.index_document(document)
        return document

    def edit(self, document: OpenDocument, changes: Iterable[Change | None], encoding: Encoding) -> None:
        """Apply changes to a document and drop its outdated prefetching.

        None is a change that cannot be understood: none after it is applied, and the document is out of step.
        """
        self.background.drop_prefetch(document)
        self.engine.note_typing()
        for change in changes:
            if change is None:
                document.out_of_step = True
                return
            self.documents.edit(document, change, encoding)

    def index_document(self, document: OpenDocument) -> None:
        """Count an open document's text in place of its file's, if the rules let others read it."""
        if document.path and self.documents.may_be_read(document):
            self.repository.open(document.path, document.language, document.text)

    def watch_files(self) -> None:
        """Watch the workspace's files here, because the client does not."""
        self.repository.watches = True
        self._adopt_scope()

    def files_changed(self, uris: Iterable[str]) -> None:
        """Let the repository read files again that changed on disk."""
        self.repository.refresh([path for uri in uris if (path := real_path(uri))])

    def close_document(self, uri: str) -> None:
        """Close a document; save what was computed for it in case it is opened again."""
        off = self.documents.why_off(uri)
        if (document := self.documents.get(uri)) is not None and document.path:
            self.repository.close_document(document.path)
        self.documents.close(uri)
        self.engine.drop_idle(uri)
        self.engine.supersede(uri)
        self.background.close_document(uri, save=off is None)

    def request_at(self, document: OpenDocument, cursor: int, explicit: bool) -> Request:
        """Return a request for a place in a document, as a snapshot with the options of the settings."""
        others, language = self.documents.others(document), document.language
        count, least = (self.settings.alternatives, 0.0) if explicit else (1, self.settings.min_confidence)
        memory = self.repository.view(language, [each.path for each in (document, *others)])
        texts = tuple(each.text for each in others)
        ahead = self._request_ahead(document, cursor)
        return replace(ahead, explicit=explicit, others=texts, count=count, least=least, memory=memory)

    def _request_ahead(self, document: OpenDocument, cursor: int) -> Request:
        """Return what a prompt at a place is made of, without what only an answer needs."""
        request = Request(document.uri, document.text, cursor, language=document.language)
        if not any(self._excerpts):
            return request
        if (chosen := self.repository.excerpts) is None:
            return replace(request, excerpts=NO_EXCERPTS)
        return replace(request, excerpts=chosen.excerpts(document.path, cursor), withdrawn=chosen.withdrawn)

    async def complete(self, request: Request) -> Answer:
        """Return the answer to a request, which may be empty, and count it with its reason."""
        language = self.documents.language(request.uri)  # the document may be closed before the answer
        self.engine.note_typing()
        if off := self._why_not(request):
            self.refuse(request.uri, off.reason)
            return Answer("", reason=off.reason)
        try:
            answer = await self.requests.answer(request)
        except Cancelled:
            answer = Answer("", reason="superseded")
        except asyncio.CancelledError:
            self._count_answer(request, language, Answer("", reason="cancelled"))
            raise
        except Exception as error:
            logger.error("a completion failed", exc_info=error)
            answer = Answer("", reason="error")
        self._count_answer(request, language, answer)
        return answer

    def notice(self, uri: str) -> str | None:
        """Return a sentence for users if the loaded model does not know an open document's language, else None."""
        document, completer = self.documents.get(uri), self._model.completer
        return completer.notice(document.language) if document and completer else None

    def refuse(self, uri: str, reason: Reason) -> None:
        """Count a request that is answered without the model."""
        self.counters.count_refusal(uri, self.documents.language(uri), reason)

    async def explain(self, request: Request) -> dict[str, object]:
        """Return the prompt and costs of a request, what was suggested last here, and why there is or was nothing."""
        completer, off = self._model.completer, self._why_not(request)
        if off is not None or completer is None:
            return explain_refusal(off or refusal("loading"))
        document, place = self.documents.get(request.uri), (request.text, request.cursor)
        answered = document and document.last_answer(*place)
        explained = await self.engine.run(object(), lambda _: completer.explain(request, answered))
        unfit = cast("Reason | None", explained["reason"])
        return explained | as_dict(refusal(unfit) if unfit else document and document.why_nothing(*place))

    async def settled(self) -> None:
        """Wait until all background work is done, except what waits for the idle budget."""
        await self.background.settled()
        await asyncio.to_thread(self.repository.wait, SETTLING)

    async def report(self) -> dict[str, object]:
        """Write the usage statistics to disk and return all counters as plain values."""
        await asyncio.to_thread(self.history.write)
        ahead, tiers = (model.ahead, model.tiers) if (model := self._model.completer) else (Ahead(), [])
        return self.counters.report() | {"ahead": asdict(ahead), "tiers": tiers}

    async def leave(self, seconds: float) -> None:
        """Save what was computed and free what was this client's, on an engine thread that goes on for others."""
        self.background.drop_all()
        self.engine.leave()
        await asyncio.to_thread(self._close_parts)
        await asyncio.to_thread(self.repository.close, seconds)
        await self._model.leave(seconds)

    def close(self, seconds: float) -> bool:
        """Save what was computed and end; return false if a thread is still running after `seconds`.

        To be called after the event loop has ended, by the only session of its engine thread.
        """
        self._close_parts()
        indexed = self.repository.close(seconds)
        return self._model.close(seconds) and indexed

    def _close_parts(self) -> None:
        for part in (*(document.retention.close for document in self.documents), self.history.write):
            try:
                part()
            except Exception as error:  # what was computed is kept all the same
                logger.error("a part of closing failed", exc_info=error)

    def _adopt_rules(self) -> None:
        """Apply the current settings and folders to all documents; drop the work of those that are off."""
        self.documents.rules = Rules(self.settings, self._folders)
        self._adopt_scope()
        for document in self.documents:
            try:
                self._drop_if_off(document)
            except Exception as error:  # one document must not keep the settings from the others
                logger.error("a document could not be judged by new rules", exc_info=error)

    def _adopt_scope(self) -> None:
        """Index the workspace by the settings, rules, folders and model in use, and the open documents in it."""
        settings, completer = self.settings, self._model.completer
        folders = [Path(path) for uri in self._folders if (path := real_path(uri))]
        tokenizer = completer.tokenizer if completer else None
        self._excerpts = excerpts = completer.excerpt_budget if completer else NO_EXCERPT_BUDGET
        if any(excerpts):
            self._loop = asyncio.get_running_loop()
        wanted = folders and settings.enabled and (settings.repository or any(excerpts))
        rules = self.documents.rules
        scope = Scope.of(settings, rules, folders, tokenizer, excerpts) if wanted and tokenizer else None
        if self.repository.adopt(scope):
            self.background.forget_suggestions()
            for document in self.documents:
                self.index_document(document)

    def _excerpts_changed(self) -> None:
        """Let the document in use take up new excerpts once its user pauses; on the repository's thread."""

        def rested() -> None:
            if document := self.documents.last_used:
                self.background.rested(document)

        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(rested)

    def _drop_if_off(self, document: OpenDocument) -> None:
        if self.documents.why_off(document.uri):
            self.background.drop(document)
            self.background.close_document(document.uri, save=False)

    def _why_not(self, request: Request) -> Refusal | None:
        """Return why a request would not reach the model, None if it would."""
        off = self.documents.why_off(request.uri, len(request.text))
        if off is not None or self._model.completer is not None:
            return off
        status = self._model.status
        return refusal("no model", cause=status.message) if status.state == "error" else refusal("loading")

    def _completion(self, request: Request) -> Job[Answer]:
        completer, loop = self._model.completer, asyncio.get_running_loop()
        language = self.documents.language(request.uri)
        assert completer is not None

        def job(cancel: Cancel) -> Answer:
            answer = completer.complete(request, cancel)
            if answer.reason == "superseded" and cancel.resumes:
                raise Cancelled  # what it computed stays, and is reused in the next turn
            # Counted here and not by the caller, since a caller that has gone leaves computed tokens behind.
            loop.call_soon_threadsafe(self._count_costs, request, language, answer)
            return answer

        return job

    def _count_costs(self, request: Request, language: str, answer: Answer) -> None:
        """Count the costs of an answer, and start the background work that follows it."""
        self.counters.count_costs(request.uri, language, answer)
        self.requests.note_costs(answer.costs)
        document = self.documents.get(request.uri)
        if document and answer.reason != "superseded" and self.documents.why_off(request.uri) is None:
            self.background.answered(document, request, answer.text)
            if self._excerpts.volatile:
                self._retrieve_if_unsure(document, request, answer)

    def _retrieve_if_unsure(self, document: OpenDocument, request: Request, answer: Answer) -> None:
        """Look for code that may help where the model is unsure; prompts show it once the cursor rests."""
        is_unsure = answer.confidence is not None and answer.confidence < UNSURE
        if not (is_unsure and document.path and self.documents.may_be_read(document)):
            return
        place = RetrievalPlace(document.path, request.text, request.cursor, self.documents.edited(document))
        self.repository.retrieve(place)

    def _count_answer(self, request: Request, language: str, answer: Answer) -> None:
        """Count an answer, and remember it if its document is open."""
        if answer.reason == "error":
            self.counters.count_refusal(request.uri, language, "error")
        else:
            self.counters.count_answer(language, answer.reason or "suggestion")
        if (document := self.documents.get(request.uri)) is not None:
            document.note_answer(request, answer)
