"""A model that a client uses, and who answers with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from efim_ls.access.secrets import may_reach_disk, private_among
from efim_ls.completion.answerers.document_state import Answerer, DocumentState
from efim_ls.completion.answerers.elsewhere import ElsewhereAnswerer, HereThenElsewhere
from efim_ls.completion.answerers.model import ModelAnswerer
from efim_ls.completion.answerers.phrases import PhraseAnswerer
from efim_ls.completion.models.open import OpenedModel
from efim_ls.completion.planning.planner import Frame
from efim_ls.languages.table import ANY, knows, notice
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.engine.engine import Engine, SavedFrame
from model_runtime.prompt.context import ContextPiece
from model_runtime.prompt.prompt import WINDOW_PARTS
from model_runtime.sequence_key import NOTHING_COMMITTED, CommittedParts

if TYPE_CHECKING:
    from efim_ls.access.committed import CommittedTexts

MOST_DOCUMENTS = 256  # of a client, whose frames are kept in memory

logger = logging.getLogger(__name__)


def share_with_nobody(is_working: bool) -> None:
    """Do nothing: no other model shares the memory of this one."""


class ModelInUse:
    """A client's use of a model: who answers with it, and which documents are open.

    Of the `answerers`, the first that serves a language answers in it; the last one has no model and serves them all.
    Used on the engine thread only, unless a method says otherwise.
    """

    def __init__(
        self,
        opened: OpenedModel,
        settings: Settings,
        client: str = "",
        work: Callable[[bool], None] = share_with_nobody,
        elsewhere: ElsewhereAnswerer | None = None,
    ) -> None:
        """Take a model that was opened for these settings, which `close` closes.

        `client` sets the frames of its documents apart from the frames of other clients. `work` is called with
        whether the client works with the model: a model that nobody works with has memory for one place. A model
        `elsewhere` is asked as well.
        """
        self.engine, self.tokenizer = opened.engine, opened.model.tokenizer
        self.context_budget = opened.budget.context
        self.elsewhere, self._both = elsewhere, dict[str, HereThenElsewhere]()  # the latter by language
        self._opened, self._saved, self._private_files = opened, opened.documents, settings.private_files
        self._work, self._open, self._left_at = work, set[str](), monotonic()
        named = settings.model_languages if elsewhere is None else ()  # else the model elsewhere knows them
        languages = named or self.engine.describe().languages or (ANY,)
        limits = settings.max_new_tokens, settings.max_lines

        @lru_cache(MOST_DOCUMENTS)  # a request must not wait for the file system
        def is_private(uri: str) -> bool:
            return not may_reach_disk(uri, settings.private_files)

        self.model_answerer = ModelAnswerer(opened, languages, limits, is_private, client)
        self._committed = _committed_texts(settings) if opened.documents.reaches_others else None
        self.answerers: list[Answerer] = [self.model_answerer, PhraseAnswerer(self.tokenizer, *limits)]
        self._serving: dict[str, Answerer] = {}  # by each language that was asked about

    def answerer(self, language: str) -> Answerer:
        """Return who answers in a language; on any thread."""
        if (serving := self._serving.get(language)) is None:
            serving = next(each for each in self.answerers if knows(each.languages, language))
            self._serving[language] = serving
        if self.elsewhere is None or not knows(self.elsewhere.model.languages, language):
            return serving
        return self._both.setdefault(language, HereThenElsewhere(serving, self.elsewhere))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that the model knows, or the one elsewhere; on any thread."""
        elsewhere = self.elsewhere.model.languages if self.elsewhere else ()
        here = (language for each in self.answerers[:-1] for language in each.languages)
        return tuple(dict.fromkeys((*here, *elsewhere)))

    def notice(self, language: str) -> str | None:
        """Return a sentence for users if the model does not know a language or gives no answers, else None.

        On any thread.
        """
        model, trouble = self.engine.describe().model, self.model_answerer.trouble
        told = notice("" if model == str(EMBEDDED) else model, self.languages, language)
        if told or trouble:
            return told or f"The model gives no answer: {trouble}."
        return (self.elsewhere and self.elsewhere.model.trouble) or None

    def new_document(self, uri: str) -> DocumentState:
        """Return the state of a document that is not in memory, with the plans that were saved of it."""
        return DocumentState(self.model_answerer.new_planner, self._saved.recall(uri))

    def computes(self, language: str) -> bool:
        """Return whether the model answers in a language, here or elsewhere, and not phrases."""
        return knows(self.languages, language)

    def open_document(self, uri: str, language: str) -> None:
        """Note an open document, unless phrases answer in it; with the first, the client works with the model."""
        if self.computes(language):  # phrases take no memory of places
            if not self._open:
                self._work(True)
            self._open.add(uri)

    def focus(self, uri: str) -> None:
        """Note which document is being edited."""
        self._saved.focus(uri)

    def close_document(self, uri: str) -> None:
        """Note that a document is closed, and release its frames."""
        self._open.discard(uri)
        self._left_at = monotonic()
        self._saved.close_document(uri)
        self.release(uri)

    def is_left(self, seconds: float) -> bool:
        """Return whether no document has been open for so long."""
        return not self._open and monotonic() - self._left_at >= seconds

    def leave_memory(self) -> None:
        """Leave the memory for keys and values to models in use."""
        self._work(False)

    def save(self, uri: str, document: DocumentState, cancel: Cancel) -> bool:
        """Save the frames of a document's requests, and their plans if these have changed; false if stopped."""
        if not (frames := document.requested_frames()):
            return True
        text_of = cache(self._committed.text) if self._committed else None  # frames share files: each is read once
        if not self.engine.save(uri, [self._saved_frame(uri, frame, text_of) for frame in frames], cancel):
            return False
        before, document.saved = document.saved, [frame.plan for frame in frames]
        if before != document.saved:
            self._saved.note(uri, document.saved)
        return True

    def release(self, uri: str) -> None:
        """Let the memory of a document's frames be reused first."""
        self.engine.release(self.model_answerer.document_name(uri))

    def close(self, seconds: float, write: bool) -> None:
        """Write the queue for up to `seconds`, or discard it unless `write`, and end."""
        with ExitStack() as parts:  # the last first, each even if others fail
            parts.callback(self._opened.close, seconds, write)
            if self._committed:
                parts.callback(self._committed.close)

    def describe(self) -> dict[str, object]:
        """Return what runs where and why, with the budget as fitted to the model's context."""
        described = asdict(self.engine.describe()) | {"languages": list(self.languages)}
        return described | self._opened.budget.describe() | self._saved.describe()

    def summary(self) -> dict[str, object]:
        """Return which model this is, for which languages, and what computes it; on any thread."""
        return summary(self.engine, self.languages)

    def _saved_frame(self, uri: str, frame: Frame, text_of: Callable[[str], str | None] | None) -> SavedFrame:
        private = private_among((uri, *frame.prompt.origins), self._private_files)
        committed = committed_parts(text_of, uri, frame) if text_of else NOTHING_COMMITTED
        return SavedFrame(self.model_answerer.frame_id(uri, frame.plan), frame.prompt, private, committed)


def summary(engine: Engine, languages: Collection[str]) -> dict[str, object]:
    """Return which model an engine has, for which languages, its threads and how many places it has room for."""
    described = engine.describe()
    computed = {"threads": described.threads, "threads_reason": described.threads_reason}
    return {"model": described.model, "languages": list(languages), "arenas": described.arenas, **computed}


def _committed_texts(settings: Settings) -> CommittedTexts | None:
    """Return what says which text is committed, None with a warning if its package is not installed."""
    try:
        from efim_ls.access.committed import CommittedTexts
    except ImportError as error:
        logger.warning("the shared cache needs the Python package %s; install efim-ls[shared]", error.name)
        return None
    return CommittedTexts(settings.private_files)


def committed_parts(text_of: Callable[[str], str | None], uri: str, frame: Frame) -> CommittedParts:
    """Return how much of a document's frame stands in the commit: whole parts, up to the first that does not.

    `text_of` returns what the last commit has of a document. That text itself is compared, not whether the document
    was changed: a line typed below leaves the text above.
    """
    plan, own = frame.plan, text_of(uri)
    by_file: dict[str, list[ContextPiece]] = {}
    for piece in plan.context.all:
        by_file.setdefault(piece.file, []).append(piece)
    files = {file for file, pieces in by_file.items() if _stand_in(text_of(Path(file).as_uri()), pieces)}

    def is_committed(name: str) -> bool:
        if name in WINDOW_PARTS:
            return own is not None and _with_lf(getattr(plan, name)) in own
        return all(each.file in files for each in plan.context.all if each.place == name)

    version = blake2b((own or "").encode("utf-8", "replace"), digest_size=16).digest()
    shared = frame.prompt.committed(is_committed, frozenset(Path(file).as_uri() for file in files))
    return shared._replace(version=version)


def _stand_in(text: str | None, pieces: list[ContextPiece]) -> bool:
    """Return whether each line that pieces show is one of a text's, whatever its indentation."""
    if text is None:
        return False
    lines = {line.strip() for line in text.split("\n")}
    return all(line.strip() in lines for each in pieces for line in _with_lf(each.text).split("\n") if line.strip())


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")
