"""A client's session: documents, settings, model, requests and statistics. Knows no LSP types."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import asdict, replace

from efim_ls.access.reasons import refusal
from efim_ls.access.rules import Rules
from efim_ls.languages.table import language_named
from efim_ls.request import Ahead, Answer, Request, Status
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.session.engine_thread import EngineClient, EngineThread
from efim_ls.session.loader import Fetch, Load, ModelLoader, Progress, nothing_to_fetch
from efim_ls.session.next_edits import EditOffers
from efim_ls.session.prefetch import BackgroundWork
from efim_ls.session.requests import Requests
from efim_ls.session.workspace import SessionWorkspace, shared_indexes
from efim_ls.settings import ALTERNATIVES, Settings
from efim_ls.text.document import Change
from efim_ls.usage.counters import Counters, UsageHistory
from efim_ls.usage.suggestions import Offers
from efim_ls.workspace.shared import SharedIndexes

logger = logging.getLogger(__name__)


class Session:
    """One client's session. Used on the event loop only; jobs that touch the model run on the engine thread."""

    def __init__(
        self,
        load: Load,
        fetch: Fetch = nothing_to_fetch,
        engine: EngineThread | None = None,
        indexes: SharedIndexes | None = None,
    ) -> None:
        """Share an engine thread and indexes with other sessions, or own them."""
        self.settings = Settings()
        engine = engine or EngineThread()
        self.engine = EngineClient(engine)
        self.history = UsageHistory(lambda: self.settings, logger.warning)
        self.counters = Counters(self.history.add)
        self.offers = Offers(self.counters)
        self.documents = OpenDocuments()
        self.workspace = SessionWorkspace(
            self.documents, indexes or shared_indexes(engine), lambda document: self.background.rested(document)
        )
        self.next_edits = EditOffers(self.documents, self.counters, self.workspace)
        self.model = ModelLoader(self.engine, load, fetch, self._adopt_scope, lambda: self.background.drop_all())
        self.background = BackgroundWork(
            self.engine, self.documents, self.model, self.workspace.index_document, self.workspace.request_ahead
        )
        self.requests = Requests(self.engine, self.documents, self.model, self.counters, self._answered)

    @property
    def status(self) -> Status:
        """Whether completions are available now."""
        return self.model.status if self.settings.enabled else Status("off", refusal("disabled").why)

    def describe(self, language: str = "") -> dict[str, object]:
        """Return the status, the index and, once a model is loaded, its device and formats with the reasons.

        Names the model that serves `language`.
        """
        index, completer = self.workspace.status, self.model.completer
        described = asdict(self.status) | self.model.description | {"repository": asdict(index) if index else None}
        return described | (completer.describe_for(language) if completer else {})

    def configure(self, settings: Settings) -> bool:
        """Adopt settings; return whether the model must be loaded for them."""
        self.settings = settings
        self.model.allow(settings.prefetch_seconds_per_minute if settings.enabled else 0)
        self.requests.patience = settings.engine.wait_seconds
        self.requests.show_after = settings.show_after_ms / 1e3
        self.next_edits.enabled = settings.next_edit
        self.requests.only_by_key = settings.suggestions == "on request"
        self._adopt_rules()
        return settings.enabled and self.model.must_load(settings)

    def work_in(self, folders: Iterable[str]) -> None:
        """Adopt the URIs of the client's workspace folders."""
        self.workspace.folders = tuple(folders)
        self._adopt_rules()

    async def load(self, progress: Progress) -> None:
        """Load the configured model; the status tells the outcome."""
        if await self.model.load(self.settings, progress):
            self._adopt_scope()  # a larger model may read more of the workspace
            if document := self.documents.last_used:
                self.background.rested(document)

    def open(self, uri: str, language: str, text: str, version: int | None = None) -> OpenDocument:
        """Open a document and return it."""
        document = OpenDocument(self.counters, uri, language, text, version)
        self.next_edits.close_document(uri)
        self.documents.add(document)
        self.background.rested(document)
        self.workspace.index_document(document)
        return document

    def edit(self, document: OpenDocument, changes: Iterable[Change | None]) -> None:
        """Apply changes to a document and drop its outdated prefetching.

        Lines that are replaced by others were not typed: a branch was checked out, or a formatter ran. The next
        request may be far, so its prompt is prefetched. None is a change that cannot be understood: none after it
        is applied, and the document is out of step.
        """
        self.background.drop_prefetch(document)
        self.engine.note_typing()
        when = self.documents.clock()
        for change in changes:
            if change is None:
                document.out_of_step = True
                return
            if (edit := self.documents.edit(document, change, when)) is None:
                continue
            if "\n" in edit.removed and "\n" in edit.added:
                self.background.rested(document)

    def sync(self, uri: str, language: str, text: str) -> OpenDocument:
        """Open a document, or edit what differs in it, so that it has this text: for clients that send no edits."""
        document = self.documents.get(uri)
        if document is None or document.called != (language_named(language, uri) or document.called):
            return self.open(uri, language, text)
        if document.editor_text != text:
            self.edit(document, [Change(text)])
        return document

    def watch_files(self) -> None:
        """Watch the workspace's files here, because the client does not."""
        self.workspace.watch()
        self._adopt_scope()

    def close_document(self, uri: str) -> None:
        """Close a document; save its keys and values in case it is opened again."""
        off = self.documents.why_off(uri)
        if (document := self.documents.get(uri)) is not None:
            self.workspace.close_document(document)
        self.next_edits.close_document(uri)
        self.documents.close(uri)
        self.engine.drop_idle(uri)
        self.engine.supersede(uri)
        self.background.close_document(uri, save=off is None)

    def request_at(self, document: OpenDocument, cursor: int, explicit: bool) -> Request:
        """Return a request for a place in a document, as a snapshot with the options of the settings."""
        level = self.settings.suggestions
        least = 0.0 if explicit or level == "on request" else level
        count = ALTERNATIVES if explicit else 1
        return replace(self.workspace.request_at(document, cursor), explicit=explicit, count=count, least=least)

    async def settled(self) -> None:
        """Wait until all background work is done, except what waits for the idle budget."""
        await self.background.settled()
        await self.workspace.settled()
        await self.background.settled()  # prompts take up the chosen text

    async def report(self) -> dict[str, object]:
        """Write the usage statistics to disk and return all counters as plain values."""
        await asyncio.to_thread(self.history.write)
        ahead, tiers = (model.ahead, model.tiers) if (model := self.model.completer) else (Ahead(), [])
        return self.counters.report() | {"ahead": asdict(ahead), "tiers": tiers}

    async def leave(self, seconds: float) -> None:
        """Save keys and values and free this client's state, on an engine thread that goes on for others."""
        self.background.drop_all()
        self.engine.leave()
        await asyncio.to_thread(self._close_parts)
        await asyncio.to_thread(self.workspace.close, seconds)
        await self.model.leave(seconds)

    def close(self, seconds: float) -> bool:
        """Save keys and values and end; return false if a thread is still running after `seconds`.

        To be called after the event loop has ended, by the only session of its engine thread.
        """
        self._close_parts()
        indexed = self.workspace.close(seconds)
        return self.model.close(seconds) and indexed

    def _close_parts(self) -> None:
        retained = (document.retention.close for document in self.documents)
        for part in (*retained, self.next_edits.close, self.history.write):
            try:
                part()
            except Exception as error:  # keys and values are kept all the same
                logger.error("a part of closing failed", exc_info=error)

    def _adopt_rules(self) -> None:
        """Apply the current settings and folders to all documents; drop the work of those that are off."""
        self.documents.rules = Rules(self.settings, self.workspace.folders)
        self._adopt_scope()
        for document in self.documents:
            try:
                if self.documents.why_off(document.uri):
                    self.background.drop(document)
                    self.background.close_document(document.uri, save=False)
            except Exception as error:  # one document must not keep the settings from the others
                logger.error("a document could not be judged by new rules", exc_info=error)

    def _adopt_scope(self) -> None:
        """Index the workspace by the settings, rules, folders and model in use."""
        if self.workspace.adopt(self.settings, self.documents.rules, self.model.completer):
            self.background.forget_suggestions()

    def _answered(self, document: OpenDocument, request: Request, answer: Answer) -> None:
        """Start the background work that follows an answer."""
        self.background.answered(document, request, answer.text)
        self.workspace.retrieve_if_unsure(document, request, answer)
