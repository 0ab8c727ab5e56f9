"""The models of one client: some languages have one of their own, loaded while needed; one answers in the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from efim_ls.completion.completer import Completer
from efim_ls.completion.suggestions.explanation import AnswerOrigin
from efim_ls.languages import family_of, knows, name_of, notice
from efim_ls.request import Ahead, Answer, Request
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel, Preparation, begun_later
from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED, embedded_for, installed
from model_runtime.errors import ModelError
from model_runtime.prompt.excerpts import ExcerptBudget, Excerpts
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

CLOSING = 1.0  # seconds that a model may take to write what is left, once nobody works in its languages

logger = logging.getLogger(__name__)


@dataclass
class UsedModel:
    """A completer with one model, the URIs of the documents that it has open, and when the last was closed.

    `work` says whether the client works with it: a model that nobody works with has memory for one place.
    """

    completer: Completer
    work: Callable[[bool], None]
    open: set[str] = field(default_factory=set[str])
    left_at: float = field(default_factory=monotonic)

    def open_document(self, uri: str) -> None:
        """Note a document; with the first one, the client begins to work with the model."""
        if not self.open:
            self.work(True)
        self.open.add(uri)

    def close_document(self, uri: str) -> None:
        """Forget a document."""
        self.open.discard(uri)
        self.left_at = monotonic()

    def is_left(self, seconds: float) -> bool:
        """Return whether no document has been open for so long."""
        return not self.open and monotonic() - self.left_at >= seconds


class LanguageCompleters:
    """A client's completers, one for each model in use. Used on the engine thread, unless a method says otherwise.

    The `first` answers in all languages that have no model of their own, or whose model cannot be loaded. The others
    are loaded when a document in their language is first opened or asked about, and closed when none has been open
    for a while. Those with open documents share the memory that the settings grant for keys and values.
    """

    def __init__(
        self,
        first: UsedModel,
        settings: Settings,
        load: Callable[[Path], UsedModel],
        close_unused: Callable[[float], None],
        lasting: bool,
    ) -> None:
        """Own the completers; `load` opens the model of a folder beside the first, and raises ModelError.

        `close_unused` closes models that no client uses, with some seconds for each to write what is left. If they
        are `lasting`, those that are in use at the end stay in memory for the next client.
        """
        self._first, self._load, self._close_unused, self._lasting = first, load, close_unused, lasting
        self._has_own = has_own_models(settings)
        self._named = settings.model_languages if self._has_own and not settings.engine.url else ()
        self._loaded: dict[Path, UsedModel] = {}
        self._failures: dict[Path, str] = {}  # why a model could not be loaded
        self._folders: dict[str, Path | None] = {}  # by language, as far as they were asked for
        self._reads_counts: dict[str, bool] = {}  # by language: whether its model has the tokenizer that counts it
        self._of_document: dict[str, UsedModel] = {}  # by URI, since it was asked about until it is closed
        self.tokenizers = LanguageTokenizers(first.completer.tokenizer, own_tokenizers if self._has_own else None)

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, return it as superseded within one decode step."""
        completer = self._serving(request.uri, request.language)
        return completer.complete(self._readable_for(completer, request), cancel)

    def prefetch(self, request: Request, rested: bool = False) -> Preparation:
        """Return work that prefetches what a completion for this request will need.

        Where the cursor has `rested` and no suggestion is shown, the prompt takes up the excerpts that are offered.
        """
        return begun_later(lambda: self._serving(request.uri, request.language).prefetch(request, rested))

    def prefetch_opened(
        self, uri: str, text: str, language: str = "", excerpts: Excerpts | None = None
    ) -> Preparation:
        """Return work that loads a document's model, and prefetches what a first completion in it will need."""
        return begun_later(lambda: self._serving(uri, language).prefetch_opened(uri, text, language, excerpts))

    def explain(self, request: Request, answered: Answer | None = None) -> dict[str, object]:
        """Return the exact prompt that a request would send, its costs, and what was `answered` there last."""
        completer = self._serving(request.uri, request.language)
        return completer.explain(self._readable_for(completer, request), answered) | {
            "notice": self.notice(request.language)
        }

    def made_from(self, uri: str) -> AnswerOrigin | None:
        """Return what the last answer in a document was made from, if it was made and not refused."""
        return self._of_document.get(uri, self._first).completer.made_from(uri)

    def notice(self, language: str) -> str | None:
        """Return a sentence for users if no model knows a language, or its model gives no answers; else None.

        On any thread.
        """
        folder = self._folder(language)
        if folder is None:
            first = self._first.completer
            is_own = not self._has_own or self._named or knows(first.languages, language)
            return first.notice(language) if is_own else notice("", self.languages, language)
        if failure := self._failures.get(folder):
            return f"The model for {name_of(language)} cannot be used: {failure}."
        loaded = self._loaded.get(folder)
        return loaded.completer.notice(language) if loaded else None

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that a model knows, loaded or not; on any thread."""
        own = (*SHIPPED, *installed()) if self._has_own and not self._named else ()
        return tuple(dict.fromkeys((*self._first.completer.languages, *own)))

    def forget_suggestions(self) -> None:
        """Forget what was suggested in all documents: files that it came from may no longer be read."""
        for completer in self._all:
            completer.forget_suggestions()

    def forget_documents(self) -> None:
        """Forget all documents, so that nothing more of them is saved."""
        for completer in self._all:
            completer.forget_documents()
        self._of_document.clear()

    def close_document(self, uri: str, save: bool) -> None:
        """Forget a document's suggestions and release its arenas; with `save`, its frames stay until saved."""
        used = self._of_document.pop(uri, self._first)
        used.completer.close_document(uri, save)
        used.close_document(uri)

    def save(self, uri: str, cancel: Cancel) -> bool:
        """Save a document's frames and what was computed for them; return false if stopped before the end."""
        return all(completer.save(uri, cancel) for completer in self._all)

    def rest(self, seconds: float) -> None:
        """Give back the memory of places where nobody has worked for so long, and of models without a document."""
        for folder, used in list(self._loaded.items()):
            if used.is_left(seconds):
                del self._loaded[folder]
                used.completer.close(CLOSING)
                self._close_unused(CLOSING)
        if self._loaded and self._first.is_left(seconds):
            self._first.work(False)
        for completer in self._all:
            completer.rest(seconds)

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all saved data is written; return whether it is. On any thread."""
        return all([completer.flush(seconds) for completer in self._all])

    def close(self, seconds: float, then: Settings | None = None) -> None:
        """Save everything, each model for up to `seconds`, unless the next settings `then` forbid it, and end."""
        with ExitStack() as parts:  # the last first, and each whatever became of the others
            if not self._lasting:
                parts.callback(self._close_unused, seconds)
            for completer in reversed(self._all):
                parts.callback(completer.close, seconds, then)
        self._loaded.clear()

    def model_for(self, language: str) -> str:
        """Return the name or the folder of the model that answers in a language, loaded or not; on any thread."""
        folder = self._folder(language)
        unusable = folder is None or folder in self._failures
        return str(self._first.completer.describe_model()["model"] if unusable else folder)

    def describe(self) -> dict[str, object]:
        """Return what runs where and why, of the first model."""
        return self._first.completer.describe()

    def describe_for(self, language: str) -> dict[str, object]:
        """Return the model that answers in a language, all languages that some model knows, and what is loaded.

        On any thread.
        """
        return {"model": self.model_for(language), "languages": list(self.languages), "models": self.models}

    @property
    def models(self) -> list[dict[str, object]]:
        """What is loaded, for which languages, with room for how many places; on any thread."""
        return [completer.describe_model() for completer in reversed(self._all)]

    @property
    def excerpt_budget(self) -> ExcerptBudget:
        """The most tokens of each part of other files' text; on any thread."""
        return self._first.completer.excerpt_budget

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What each tier of each model holds; on any thread."""
        return [tier for completer in self._all for tier in completer.tiers]

    @property
    def ahead(self) -> Ahead:
        """Totals of prefetching with all models that are loaded; on any thread."""
        totals = [completer.ahead for completer in self._all]
        tokens, wasted = sum(each.tokens for each in totals), sum(each.wasted for each in totals)
        return Ahead(tokens, wasted, sum(each.ms for each in totals))

    @property
    def _all(self) -> list[Completer]:
        return [used.completer for used in (*list(self._loaded.values()), self._first)]

    def _folder(self, language: str) -> Path | None:
        """Return the folder of a language's own model, None if the first one answers in it."""
        if not self._has_own:
            return None
        if language not in self._folders:
            is_asked = language and not (self._named and not knows(self._named, language))
            folder = embedded_for(language) if is_asked else None
            self._folders[language] = folder if folder != EMBEDDED else None
        return self._folders[language]

    def _serving(self, uri: str, language: str) -> Completer:
        """Return who answers in a document, which belongs to it until it is closed or its language changes."""
        used = self._used(self._folder(language))
        before = self._of_document.get(uri)
        if before is not used:
            if before is not None:
                self.close_document(uri, save=False)
            self._of_document[uri] = used
            if knows(used.completer.languages, language):  # phrases take no memory of places
                used.open_document(uri)
        return used.completer

    def _used(self, folder: Path | None) -> UsedModel:
        """Return a model, loaded if need be; the first one if that fails, which is logged once."""
        if folder is None or folder in self._failures:
            return self._first
        if folder not in self._loaded:
            try:
                self._loaded[folder] = self._load(folder)
            except ModelError as error:
                self._failures[folder] = str(error)
                logger.warning("the model in %s cannot be used: %s", folder, error)
                return self._first
        return self._loaded[folder]

    def _readable_for(self, completer: Completer, request: Request) -> Request:
        """Return a request without counts if these are of another tokenizer's ids."""
        if request.counts is None:
            return request
        if (language := request.language) not in self._reads_counts:
            counted_with = self.tokenizers.of(family_of(language))
            self._reads_counts[language] = counted_with.digest == completer.tokenizer.digest
        return request if self._reads_counts[language] else replace(request, counts=None)


def has_own_models(settings: Settings) -> bool:
    """Return whether languages have models of their own: a model that is named is meant for all that it knows."""
    return not settings.model or bool(settings.engine.url)  # with an engine elsewhere, that is the model's name there


def own_tokenizers() -> Mapping[str, Path]:
    """Return the folders of models with a tokenizer of their own, by the families of languages that they know."""
    own = {**SHIPPED, **installed()}
    return {family: own[family] for family in map(family_of, own) if own.get(family, EMBEDDED) != EMBEDDED}
