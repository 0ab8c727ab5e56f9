"""The documents that are completed, and who answers in their languages.

Everything here runs on the engine thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache, lru_cache
from time import perf_counter
from typing import TYPE_CHECKING

from efim_ls.access.secrets import may_reach_disk, private_among
from efim_ls.completion.answerers.answerer import Answerer
from efim_ls.completion.answerers.local_then_remote import LocalThenRemote
from efim_ls.completion.answerers.model import ModelAnswerer
from efim_ls.completion.answerers.phrases import PhraseAnswerer
from efim_ls.completion.answerers.remote import RemoteAnswerer
from efim_ls.completion.committed_parts import committed_parts
from efim_ls.completion.document_state import DocumentState
from efim_ls.completion.models.kinds import kind_of
from efim_ls.completion.models.open import OpenedModel
from efim_ls.completion.planning.planner import Frame
from efim_ls.completion.suggestions.explanation import AnswerOrigin
from efim_ls.languages import ANY, knows, notice
from efim_ls.request import Ahead, Answer, Request
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel, Preparation, begun_later
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.engine.engine import SavedFrame
from model_runtime.isolated import NOTHING_COMMITTED
from model_runtime.prompt.excerpts import ExcerptBudget, Excerpts
from model_runtime.prompt.tokenizer import Tokenizer

if TYPE_CHECKING:
    from efim_ls.access.committed import CommittedTexts

MOST_DOCUMENTS = 256  # documents whose frames are kept in memory

logger = logging.getLogger(__name__)


class Completer:
    """A loaded model with the frames and suggestions of the documents it completes.

    Of the `answerers`, the first that serves a language answers in it; the last one has no model and serves them all.
    """

    def __init__(self, opened: OpenedModel, settings: Settings, client: str = "") -> None:
        """Take a model that was opened for these settings, which `close` closes.

        `client` sets the frames of its documents apart from those of other completers with the same model.
        """
        self._opened, self._settings, self._budget = opened, settings, opened.budget
        self._model, self._engine, self._saved = opened.model, opened.engine, opened.documents
        self._documents: dict[str, DocumentState] = {}  # most recently used last
        self._focused = ""
        self._ahead_ms = 0.0
        self._remote = RemoteAnswerer(opened.remote, settings, client) if opened.remote else None
        named = settings.model_languages if self._remote is None else ()  # those of the model elsewhere
        languages = named or self._engine.describe().languages or (ANY,)
        limits = settings.max_new_tokens, settings.max_lines

        @lru_cache(MOST_DOCUMENTS)  # a request must not wait for the file system
        def is_private(uri: str) -> bool:
            return not may_reach_disk(uri, settings.private_files)

        self._model_answerer = ModelAnswerer(opened, languages, limits, is_private, client)
        self._committed = _committed_texts(settings) if settings.shared_tier.url else None
        tokenizer = opened.model.tokenizer
        self.answerers: list[Answerer] = [self._model_answerer, PhraseAnswerer(tokenizer, *limits)]
        self._serving: dict[str, Answerer] = {}  # by each language that was asked about

    @classmethod
    def load(cls, settings: Settings, progress: Callable[[str, int], None]) -> Completer:
        """Load the configured model; raises ModelError with cause and remedy."""
        return cls(kind_of(settings).open(settings, progress), settings)

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, return it as superseded within one decode step."""
        if request.uri != self._focused:
            if left_document := self._documents.get(self._focused):
                left_document.release_counts()
            self._focused = request.uri
            self._saved.focus(request.uri)
        document = self._document(request.uri)
        return self.answerer(request.language).complete(document, document.ask(request), cancel)

    def answerer(self, language: str) -> Answerer:
        """Return who answers in a language; on any thread."""
        if (serving := self._serving.get(language)) is None:
            serving = next(each for each in self.answerers if knows(each.languages, language))
            if self._remote and knows(self._remote.languages, language):
                serving = LocalThenRemote(serving, self._remote)
            self._serving[language] = serving
        return serving

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that a model knows; on any thread."""
        elsewhere = self._remote.languages if self._remote else ()
        here = (language for each in self.answerers[:-1] for language in each.languages)
        return tuple(dict.fromkeys((*here, *elsewhere)))

    def notice(self, language: str) -> str | None:
        """Return a sentence for users if the model does not know a language or gives no answers, else None.

        On any thread.
        """
        model, trouble = self._engine.describe().model, self._model_answerer.trouble
        told = notice("" if model == str(EMBEDDED) else model, self.languages, language)
        if told or trouble:
            return told or f"The model gives no answer: {trouble}."
        if self._remote and self._remote.trouble:
            return f"The remote model gives no answer, so the local one's is shown: {self._remote.trouble}."
        return None

    def prefetch(self, request: Request, rested: bool = False) -> Preparation:
        """Return work that prefetches what a completion for this request will need.

        Where the cursor has `rested` and no suggestion is shown, the prompt takes up the excerpts that are offered.
        """
        answerer = self.answerer(request.language)
        return self._ahead_of_need(lambda: answerer.prefetch(self._document(request.uri), request, rested))

    def prefetch_opened(
        self, uri: str, text: str, language: str = "", excerpts: Excerpts | None = None
    ) -> Preparation:
        """Return work that prefetches what a first completion in a document will need."""
        opened, answerer = Request(uri, text, 0, language=language, excerpts=excerpts), self.answerer(language)
        return self._ahead_of_need(lambda: answerer.prefetch_opened(self._document(uri), opened))

    def explain(self, request: Request, answered: Answer | None = None) -> dict[str, object]:
        """Return the exact prompt that a request would send, its costs, and what was `answered` there last.

        It changes nothing.
        """
        explanation = self.answerer(request.language).explain(self._document(request.uri), request, answered)
        return explanation | {"notice": self.notice(request.language)}

    def made_from(self, uri: str) -> AnswerOrigin | None:
        """Return what the last answer in a document was made from, if it was made and not refused."""
        document = self._documents.get(uri)
        return document and document.answer_origin

    def forget_suggestions(self) -> None:
        """Forget what was suggested in all documents: files that it came from may no longer be read."""
        for document in self._documents.values():
            document.forget_suggestions()
            document.forget_excerpts()
        if self._remote:
            self._remote.forget()

    def forget_documents(self) -> None:
        """Forget all documents, so that nothing more of them is saved."""
        for uri in list(self._documents):
            self.close_document(uri, save=False)

    def close_document(self, uri: str, save: bool) -> None:
        """Forget a document's suggestions and release its arenas; with `save`, its frames stay until saved."""
        if (document := self._documents.get(uri)) is not None:
            document.close()
            if not save:
                document.forget_frames()
        if uri == self._focused:
            self._focused = ""
        self._saved.close_document(uri)
        if self._remote:
            self._remote.forget(uri)
        self._release(uri)

    def save(self, uri: str, cancel: Cancel) -> bool:
        """Save a document's frames and what was computed for them; return false if stopped before the end."""
        if (document := self._documents.get(uri)) is None:
            return True
        if not self._save_frames(uri, document, cancel):
            return False
        if document.closed:
            document.forget_frames()
        return True

    def rest(self, seconds: float) -> None:
        """Give back the memory of what was computed for places where nobody has worked for so long."""
        self._engine.rest(seconds)

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all saved data is written; return whether it is. On any thread."""
        return self._engine.flush(seconds)

    def close(self, seconds: float, then: Settings | None = None) -> None:
        """Save everything for up to `seconds`, unless the next settings `then` change what may be saved, and end."""
        end, mine = perf_counter() + seconds, self._settings
        write = then is None or (then.persist, then.private_files) == (mine.persist, mine.private_files)
        unsaved = [uri for uri, document in reversed(self._documents.items()) if document.unsaved]
        wanted = sorted(unsaved, key=lambda uri: self._documents[uri].closed) if write else []
        with ExitStack() as parts:  # the last first, and each whatever became of those before
            parts.callback(self._opened.close, seconds, write)
            if self._remote:
                parts.callback(self._remote.close)
            if self._committed:
                parts.callback(self._committed.close)
            for uri in self._documents:
                parts.callback(self._release, uri)
            for uri in reversed(wanted):
                parts.callback(self.save, uri, Cancel(lambda: perf_counter() > end))
        self._documents.clear()

    def describe(self) -> dict[str, object]:
        """Return what runs where and why, with the budget as fitted to the model's context."""
        described = asdict(self._engine.describe()) | {"languages": list(self.languages)}
        described["remote"] = self._remote.host if self._remote else ""
        return described | self._budget.describe() | self._saved.describe()

    def describe_model(self) -> dict[str, object]:
        """Return which model this is, for which languages, and how many places it has room for; on any thread."""
        described = self._engine.describe()
        return {"model": described.model, "languages": list(self.languages), "arenas": described.arenas}

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; on any thread."""
        return self._model.tokenizer

    @property
    def excerpt_budget(self) -> ExcerptBudget:
        """The most tokens of each part of other files' text; on any thread."""
        return self._budget.excerpts

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What each tier holds; on any thread."""
        return list(self._engine.statistics().tiers)

    @property
    def ahead(self) -> Ahead:
        """Totals of prefetching with this model; on any thread."""
        counted = self._engine.statistics()
        return Ahead(counted.prefetched, counted.wasted, self._ahead_ms)

    def _release(self, uri: str) -> None:
        """Let what a document's frames occupy be reused first."""
        self._engine.release(self._model_answerer.document_name(uri))

    def _document(self, uri: str) -> DocumentState:
        """Return a document's state and mark it as most recently used; may drop the oldest saved one."""
        document = self._documents.pop(uri, None) or DocumentState(
            self._model_answerer.new_planner, self._saved.recall(uri)
        )
        self._documents[uri], document.closed = document, False
        if len(self._documents) > MOST_DOCUMENTS:
            old = next((other for other, each in self._documents.items() if other != uri and not each.unsaved), None)
            if old is not None:
                del self._documents[old]
        return document

    def _save_frames(self, uri: str, document: DocumentState, cancel: Cancel) -> bool:
        """Save the frames of a document's requests, and their plans if these have changed."""
        if not (frames := document.requested_frames()):
            return True
        text_of = cache(self._committed.text) if self._committed else None  # frames share files: each is read once
        if not self._engine.save(uri, [self._saved_frame(uri, frame, text_of) for frame in frames], cancel):
            return False
        before, document.saved = document.saved, [frame.plan for frame in frames]
        if before != document.saved:
            self._saved.note(uri, document.saved)
        return True

    def _saved_frame(self, uri: str, frame: Frame, text_of: Callable[[str], str | None] | None) -> SavedFrame:
        private = private_among((uri, *frame.prompt.origins), self._settings.private_files)
        committed = committed_parts(text_of, uri, frame) if text_of else NOTHING_COMMITTED
        return SavedFrame(self._model_answerer.frame_id(uri, frame.plan), frame.prompt, private, committed)

    def _ahead_of_need(self, begin: Callable[[], Preparation]) -> Preparation:
        """Return work that `begin` returns on the engine thread, when it starts; its time is counted."""
        work = begun_later(begin)

        def prepare(cancel: Cancel) -> bool:
            started = perf_counter()
            done = work(cancel)
            self._ahead_ms += (perf_counter() - started) * 1e3
            return done

        return prepare


def _committed_texts(settings: Settings) -> CommittedTexts | None:
    """Return what says which text is committed, None with a warning if its package is not installed."""
    try:
        from efim_ls.access.committed import CommittedTexts
    except ImportError as error:
        logger.warning("the shared cache needs the Python package %s; install efim-ls[shared]", error.name)
        return None
    return CommittedTexts(settings.private_files)
