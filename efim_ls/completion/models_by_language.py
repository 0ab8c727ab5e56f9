"""The models of one client: some languages have a separate model, loaded while needed; one answers in the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from efim_ls.completion.model_in_use import ModelInUse
from efim_ls.languages.table import family_of, known_as, knows, name_of, notice, with_dialects
from efim_ls.request import Part, Request
from efim_ls.settings import Settings
from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED, embedded_for, installed
from model_runtime.errors import ModelError
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

logger = logging.getLogger(__name__)


def nothing_to_close(seconds: float) -> None:
    """Close nothing: nobody else uses the model."""


class Models:
    """A client's models. Used on the engine thread, unless a method says otherwise.

    The `first` answers in all languages without a separate model, or whose model cannot be loaded. The others
    are loaded when a document in their language is first opened or asked about, and closed when none has been open
    for a while. Those with open documents share the memory that the settings grant for keys and values.
    """

    def __init__(
        self,
        first: ModelInUse,
        settings: Settings,
        load: Callable[[Path], ModelInUse] | None = None,
        close_unused: Callable[[float], None] = nothing_to_close,
        lasting: bool = True,
    ) -> None:
        """Own the models; `load` opens the model in a folder, as well as the first, and raises ModelError.

        Without `load`, the first answers in all languages. `close_unused` closes models that no client uses, with
        some seconds for each to write its queue. If they are `lasting`, those that are in use at the end stay in
        memory for the next client.
        """
        self.first, self._load, self._close_unused, self._lasting = first, load, close_unused, lasting
        self._has_own = load is not None and has_own_models(settings)
        self._named = settings.model_languages if self._has_own and not settings.engine.url else ()
        self._loaded: dict[Path, ModelInUse] = {}
        self._failures: dict[Path, str] = {}  # why a model could not be loaded
        self._folders: dict[str, Path | None] = {}  # by language, once asked for
        self._reads_counts: dict[str, bool] = {}  # by language: whether its model has the tokenizer that counts it
        self.tokenizers = LanguageTokenizers(first.tokenizer, own_tokenizers if self._has_own else None)
        self.elsewhere = first.elsewhere

    @property
    def in_use(self) -> list[ModelInUse]:
        """The models in memory, the first one last; on any thread."""
        return [*list(self._loaded.values()), self.first]

    def at(self, language: str) -> ModelInUse:
        """Return the model of a language, loaded if need be; the first one if that fails, which is logged once."""
        folder = self._folder(language)
        if folder is None or folder in self._failures or self._load is None:
            return self.first
        if folder not in self._loaded:
            try:
                self._loaded[folder] = self._load(folder)
            except ModelError as error:
                self._failures[folder] = str(error)
                logger.warning("the model in %s cannot be used: %s", str(folder), str(error))  # logs hide objects
                return self.first
        return self._loaded[folder]

    def language_in(self, part: Part) -> str:
        """Return the language in which a part of a document is completed: its own, unless a model knows only the
        document's; on any thread.
        """
        is_known = not part.within or knows(self.languages, part.language) or not knows(self.languages, part.within)
        return part.language if is_known else part.within

    def settled(self, request: Request) -> Request:
        """Return a request in the language in which it is completed."""
        if request.part is None or (language := self.language_in(request.part)) == request.language:
            return request
        return replace(request, language=language, part=None, counts=None)

    def readable(self, model: ModelInUse, request: Request) -> Request:
        """Return a request without counts if these are of another tokenizer's ids."""
        if request.counts is None:
            return request
        if (language := request.language) not in self._reads_counts:
            counted_with = self.tokenizers.of(family_of(language))
            self._reads_counts[language] = counted_with.digest == model.tokenizer.digest
        return request if self._reads_counts[language] else replace(request, counts=None)

    def left(self, seconds: float) -> list[ModelInUse]:
        """Return the models, except the first, without an open document for `seconds`."""
        return [model for model in self._loaded.values() if model.is_left(seconds)]

    def drop(self, model: ModelInUse, seconds: float) -> None:
        """Forget a model that was closed; it leaves memory if no other client uses it."""
        self._loaded = {folder: each for folder, each in self._loaded.items() if each is not model}
        self._close_unused(seconds)

    def rest(self, seconds: float) -> None:
        """Give back the memory of places where nobody has worked for so long."""
        if self._loaded and self.first.is_left(seconds):
            self.first.leave_memory()
        for model in self.in_use:
            model.engine.rest(seconds)

    def close(self, seconds: float) -> None:
        """Forget the models, which were closed; unless they are lasting, they leave memory."""
        self._loaded.clear()
        if not self._lasting:
            self._close_unused(seconds)

    def notice(self, language: str) -> str | None:
        """Return a sentence for users if no model knows a language, or its model gives no answers; else None.

        On any thread.
        """
        folder = self._folder(language)
        if folder is None:
            is_own = not self._has_own or self._named or knows(self.first.languages, language)
            return self.first.notice(language) if is_own else notice("", self.languages, language)
        if failure := self._failures.get(folder):
            return f"The model for {name_of(language)} cannot be used: {failure}."
        loaded = self._loaded.get(folder)
        return loaded.notice(language) if loaded else None

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that a model knows, loaded or not; on any thread."""
        own = (*SHIPPED, *installed()) if self._has_own and not self._named else ()
        return with_dialects((*self.first.languages, *own))

    def model_for(self, language: str) -> str:
        """Return the name or the folder of the model that answers in a language, loaded or not; on any thread.

        Of two models, the first to answer.
        """
        folder = self._folder(language)
        unusable = folder is None or folder in self._failures
        return str(self.first.summary()["model"] if unusable else folder)

    def _folder(self, language: str) -> Path | None:
        """Return the folder of a language's own model, None if the first one answers in it."""
        if not self._has_own:
            return None
        if language not in self._folders:
            is_asked = language and not (self._named and not knows(self._named, language))
            folders = map(embedded_for, known_as(language)) if is_asked else ()
            folder = next(filter(None, folders), None)
            self._folders[language] = folder if folder != EMBEDDED else None
        return self._folders[language]


def has_own_models(settings: Settings) -> bool:
    """Return whether languages have separate models: a model that the settings name serves all that it knows."""
    return not settings.model or bool(settings.engine.url)  # with an engine elsewhere, that is the model's name there


def own_tokenizers() -> Mapping[str, Path]:
    """Return the folders of models with a separate tokenizer, by the families of languages that they know."""
    own = {**SHIPPED, **installed()}
    return {family: own[family] for family in map(family_of, own) if own.get(family, EMBEDDED) != EMBEDDED}
