"""The documents of a client, completed by the models of their languages."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack, nullcontext
from time import perf_counter
from typing import Any, Self

from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.answerers.elsewhere import Progress
from efim_ls.completion.answerers.remote import asking_server
from efim_ls.completion.model_in_use import MOST_DOCUMENTS, ModelInUse
from efim_ls.completion.models.kinds import kind_of
from efim_ls.completion.models.open import OpenedModel
from efim_ls.completion.models_by_language import Models
from efim_ls.completion.suggestions.explanation import AnswerOrigin
from efim_ls.request import Ahead, Answer, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.prompt.context import ContextBudget
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

CLOSING = 1.0  # seconds that a model may take to write its queue, once nobody works in its languages


class Completer:
    """A client's documents, with their frames and suggestions, and the `models` that complete them.

    Used on the engine thread, unless a method says otherwise.
    """

    def __init__(self, models: Models, settings: Settings) -> None:
        """Take the models that were opened for these settings, which `close` closes."""
        self.models, self._settings, self._elsewhere = models, settings, models.elsewhere
        # Has a larger model here give way to an answer that a key waits for; on any thread.
        self.answering = self._elsewhere.model.answering if self._elsewhere else nullcontext[None]
        self._documents: dict[str, DocumentState] = {}  # most recently used last
        self._model_of: dict[str, ModelInUse] = {}  # by document, open or remembered
        self._focused = ""
        self._ahead_ms = 0.0

    @classmethod
    def load(cls, settings: Settings, progress: Progress) -> Self:
        """Load the configured model, which answers in all languages; raises ModelError with cause and remedy."""
        opened = kind_of(settings).open(settings, progress)
        return cls(_only_model(opened, settings), settings)

    @classmethod
    def over(cls, opened: OpenedModel, settings: Settings) -> Self:
        """Return a completer whose only model was opened for these settings."""
        return cls(_only_model(opened, settings), settings)

    def open_elsewhere(self, progress: Progress) -> Future[Any] | None:
        """Have the model elsewhere opened, if there is one; the future raises ModelError. On any thread."""
        return self._elsewhere and self._elsewhere.model.open(progress)

    def allow(self, seconds: float) -> None:
        """Set how many seconds of a minute a model elsewhere may compute ahead of need here; on any thread."""
        if self._elsewhere:
            self._elsewhere.model.allow(seconds)

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, return it as superseded within one decode step."""
        if request.part is not None:
            request = self.models.settled(request)
        model, document = self._opened(request.uri, request.language)
        if request.uri != self._focused:
            if left_document := self._documents.get(self._focused):
                left_document.release_counts()
            self._focused = request.uri
            self._model_of[request.uri].focus(request.uri)
        asked = document.ask(self.models.readable(model, request))
        return model.answerer(request.language).complete(document, asked, cancel)

    def prepare(self, place: Upcoming, cancel: Cancel) -> bool:
        """Compute what a completion will need until `cancel()` is true; return whether nothing is left to do.

        Called again for the same place, it goes on where it stopped. The document's model is loaded if need be.
        """
        started, request = perf_counter(), place.request
        if request.part is not None:
            request = self.models.settled(request)
        try:
            model, document = self._opened(request.uri, request.language)
            return model.answerer(request.language).prepare(document, place, cancel)
        finally:
            self._ahead_ms += (perf_counter() - started) * 1e3

    def explain(self, request: Request, answered: Answer | None = None) -> dict[str, object]:
        """Return the exact prompt that a request would send, its costs, and the last answer there, `answered`.

        It changes nothing.
        """
        request = self.models.settled(request)
        model, document = self._opened(request.uri, request.language)
        asked = self.models.readable(model, request)
        explanation = model.answerer(request.language).explain(document, asked, answered)
        return explanation | {"notice": self.notice(request.language)}

    def made_from(self, uri: str) -> AnswerOrigin | None:
        """Return what the last answer in a document was made from, if it was made and not refused."""
        document = self._documents.get(uri)
        return document and document.answer_origin

    def notice(self, language: str) -> str | None:
        """Return a sentence for users if no model knows a language, or its model gives no answers; else None.

        On any thread.
        """
        return self.models.notice(language)

    def forget_suggestions(self) -> None:
        """Forget the suggestions in all documents: their source files may no longer be read."""
        for document in self._documents.values():
            document.forget_suggestions()
            document.forget_context()
        if self._elsewhere:
            self._elsewhere.forget_suggestions()

    def forget_documents(self) -> None:
        """Forget all documents, so that nothing more of them is saved."""
        for uri in list(self._documents):
            self.close_document(uri, save=False)

    def close_document(self, uri: str, save: bool) -> None:
        """Forget a document's suggestions and release its arenas; with `save`, its frames stay until saved."""
        self._leave_document(uri, save)
        if self._elsewhere:
            self._elsewhere.close_document(uri, save)

    def save(self, uri: str, cancel: Cancel) -> bool:
        """Save a document's frames with their keys and values; return false if stopped before the end."""
        if not self._save(uri, cancel):
            return False
        if self._elsewhere:
            self._elsewhere.save(uri)
        return True

    def rest(self, seconds: float) -> None:
        """Give back the memory of places where nobody has worked for so long, and of models without a document."""
        for model in self.models.left(seconds):
            self._close_model(model, CLOSING, write=True)
            self.models.drop(model, CLOSING)
        self.models.rest(seconds)
        if self._elsewhere:
            self._elsewhere.rest(seconds)

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all saved data is written; return whether it is. On any thread."""
        is_written = self._elsewhere is None or self._elsewhere.flush(seconds)
        return all([is_written, *(model.engine.flush(seconds) for model in self.models.in_use)])

    def close(self, seconds: float, then: Settings | None = None) -> bool:
        """Save everything, for up to `seconds` a model, unless the next settings `then` forbid it, and end.

        Return whether no thread of it is still at work.
        """
        mine = self._settings
        write = then is None or (then.persist, then.private_files) == (mine.persist, mine.private_files)
        with ExitStack() as parts:  # the last first, each even if others fail
            parts.callback(self.models.close, seconds)
            for model in reversed(self.models.in_use):
                parts.callback(self._close_model, model, seconds, write)
            return self._elsewhere is None or self._elsewhere.close(seconds, then)

    def describe(self) -> dict[str, object]:
        """Return what runs where and why, of the first model."""
        return self.models.first.describe() | self._described_elsewhere

    def describe_for(self, language: str) -> dict[str, object]:
        """Return the model that answers in a language, all languages that some model knows, and the loaded models.

        On any thread.
        """
        models = self.models
        loaded = [model.summary() for model in reversed(models.in_use)]
        loaded += self._elsewhere.model.summaries() if self._elsewhere else []
        described = {"model": models.model_for(language), "languages": list(models.languages), "models": loaded}
        return self._described_elsewhere | described

    @property
    def tokenizers(self) -> LanguageTokenizers:
        """The tokenizers that count the workspace's files; on any thread."""
        return self.models.tokenizers

    @property
    def context_budget(self) -> ContextBudget:
        """The most tokens of each part of other files' text, of the model that reads it; on any thread."""
        elsewhere = self._elsewhere.model.context_budget if self._elsewhere else ()
        return elsewhere or self.models.first.context_budget

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What each tier of each model holds; on any thread."""
        here = [tier for model in self.models.in_use for tier in model.engine.statistics().tiers]
        return here + (self._elsewhere.model.tiers if self._elsewhere else [])

    @property
    def ahead(self) -> Ahead:
        """Totals of prefetching with all models that are loaded; on any thread."""
        counted = [model.engine.statistics() for model in self.models.in_use]
        other = self._elsewhere.model.ahead if self._elsewhere else Ahead()
        tokens, wasted = sum(each.prefetched for each in counted), sum(each.wasted for each in counted)
        return Ahead(tokens + other.tokens, wasted + other.wasted, self._ahead_ms + other.ms)

    @property
    def _described_elsewhere(self) -> dict[str, object]:
        return self._elsewhere.model.describe() if self._elsewhere else {"remote": "", "larger": ""}

    def _opened(self, uri: str, language: str = "") -> tuple[ModelInUse, DocumentState]:
        """Return the model of a language, and a document's state, the most recently used one; may drop the oldest
        saved one.

        The state belongs to a model until another computes something for it, as phrases do not: between two parts in
        a language that a model knows there may be text in a language that none knows.
        """
        model, document = self.models.at(language), self._documents.get(uri)
        if document is not None and self._model_of[uri] is not model and model.computes(language):
            self._leave_document(uri, save=False)
            del self._documents[uri]
            document = None
        if document is None:
            document = model.new_document(uri)
            self._model_of[uri] = model
        if document.closed or document.language != language:
            document.closed, document.language = False, language
            self._model_of[uri].open_document(uri, language)
        self._documents.pop(uri, None)
        self._documents[uri] = document
        if len(self._documents) > MOST_DOCUMENTS:
            self._drop_oldest(uri)
        return model, document

    def _drop_oldest(self, kept: str) -> None:
        """Drop the state of the document that was used longest ago, if one but `kept` has nothing to save."""
        old = next((uri for uri, each in self._documents.items() if uri != kept and not each.unsaved), None)
        if old is not None and self._documents.pop(old).closed:
            del self._model_of[old]

    def _leave_document(self, uri: str, save: bool) -> None:
        """Have the model that completes a document here forget it."""
        model = self._model_of.get(uri, self.models.first)
        if (document := self._documents.get(uri)) is None:
            self._model_of.pop(uri, None)
        else:
            document.close()
            if not save:
                document.forget_frames()
        if uri == self._focused:
            self._focused = ""
        model.close_document(uri)

    def _save(self, uri: str, cancel: Cancel) -> bool:
        """Save what a document has with the model here; return false if stopped before the end."""
        if (document := self._documents.get(uri)) is None:
            return True
        if not self._model_of[uri].save(uri, document, cancel):
            return False
        if document.closed:
            document.forget_frames()
        return True

    def _close_model(self, model: ModelInUse, seconds: float, write: bool) -> None:
        """End a model, with `seconds` to save its documents, if these may be written; forget them."""
        end = perf_counter() + seconds
        its_own = [uri for uri, each in self._model_of.items() if each is model]
        unsaved = [uri for uri in reversed(self._documents) if uri in its_own and self._documents[uri].unsaved]
        wanted = sorted(unsaved, key=lambda uri: self._documents[uri].closed) if write else []
        with ExitStack() as parts:  # the last first, each even if others fail
            parts.callback(model.close, seconds, write)
            for uri in its_own:
                parts.callback(model.release, uri)
            for uri in reversed(wanted):
                parts.callback(self._save, uri, Cancel(lambda: perf_counter() > end))
        for uri in its_own:
            self._documents.pop(uri, None)
            del self._model_of[uri]


def _only_model(opened: OpenedModel, settings: Settings) -> Models:
    """Return a model as the only one here; a server may be asked as well."""
    return Models(ModelInUse(opened, settings, elsewhere=asking_server(opened.remote, settings)), settings)
