"""A client's documents as a model on another machine completes them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

from efim_ls.access.ignored import is_text_ignored
from efim_ls.access.secrets import may_reach_disk
from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.answerers.elsewhere import ElsewhereAnswerer, Progress, Told
from efim_ls.completion.answerers.model import ModelAnswerer
from efim_ls.completion.models.open import RemoteModel
from efim_ls.languages.table import ANY
from efim_ls.paths import file_path
from efim_ls.request import Ahead, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.prompt.context import NO_CONTEXT, ContextBudget

MOST_DOCUMENTS = 64  # whose frames are remembered


class RemoteDocuments:
    """A `ModelElsewhere` on a server, which a separate thread asks."""

    context_budget: ContextBudget = ()  # no text of other files is sent
    ahead = Ahead()  # a server counts for itself

    def __init__(self, served: RemoteModel, settings: Settings, client: str = "") -> None:
        """Ask the server of a model, as the settings say; `client` is as in `ModelAnswerer`."""
        self._host, self._options = settings.engine.host, settings.engine
        self.source = f"from the model on {self._host}"
        self._private_files = settings.private_files
        self.languages = settings.model_languages or served.engine.describe().languages or (ANY,)
        limits = settings.max_new_tokens, settings.max_lines
        self._engine = served.engine
        self._model = ModelAnswerer(served, self.languages, limits, self._is_private, client)
        self._thread = ThreadPoolExecutor(1, "remote answers")
        self._documents = OrderedDict[str, DocumentState]()  # most recently used last

    @property
    def trouble(self) -> str:
        """Why the server could not answer last, as a sentence for users, empty if it could; on any thread."""
        trouble = self._model.trouble
        return trouble and f"The remote model gives no answer, so the local one's is shown: {trouble}."

    def open(self, progress: Progress) -> Future[None]:
        """Return a future that is done: the server is found once it is asked."""
        return self.submit(lambda: None)

    def submit(self, job: Callable[[], None]) -> Future[None]:
        """Have a job done on the thread that asks the server; on any thread."""
        return self._thread.submit(job)

    def answering(self) -> AbstractContextManager[None]:
        """Do nothing: the other machine computes."""
        return nullcontext()

    def allow(self, seconds: float) -> None:
        """Do nothing: the other machine computes."""

    def answer(self, request: Request, cancel: Cancel) -> Told | None:
        """Ask the server, if the text may be sent."""
        if not self._may_be_sent(request.uri):
            return None
        document = self._document(request.uri)
        answer = self._model.complete(document, document.ask(_sent(request)), cancel)
        origin = document.answer_origin
        return Told(answer, origin.likelihood if origin and not origin.start and answer.text else None)

    def prepare(self, place: Upcoming, cancel: Cancel) -> None:
        """Have the server compute what a completion will need, if the text may be sent."""
        if self._may_be_sent(place.request.uri):
            document = self._document(place.request.uri)
            self._model.prepare(document, replace(place, request=_sent(place.request)), cancel)

    def save(self, uri: str, cancel: Cancel) -> bool:
        """Return that nothing is left to do: the server keeps keys and values as it likes."""
        return True

    def close_document(self, uri: str, save: bool) -> None:
        """Forget a document."""
        self._engine.forget(self._model.document_name(uri))
        with suppress(KeyError):
            del self._documents[uri]

    def forget_suggestions(self) -> None:
        """Forget the suggestions in all documents."""
        for document in self._documents.values():
            document.forget_suggestions()

    def rest(self, seconds: float) -> None:
        """Do nothing: no memory of places is here."""

    def close(self, seconds: float, then: Settings | None) -> bool:
        """End the thread, as soon as the server or its silence lets it."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        return True

    def flush(self, seconds: float) -> bool:
        """Return that nothing is left to write."""
        return True

    def describe(self) -> dict[str, object]:
        """Return the server's name and port; on any thread."""
        return {"remote": self._host, "larger": ""}

    def summaries(self) -> list[dict[str, object]]:
        """Return none: the model is not in this process."""
        return []

    @property
    def tiers(self) -> list[dict[str, object]]:
        """None: a server counts for itself."""
        return []

    def _document(self, uri: str) -> DocumentState:
        document = self._documents.pop(uri, None) or DocumentState(self._model.new_planner)
        self._documents[uri] = document
        if len(self._documents) > MOST_DOCUMENTS:
            self._documents.popitem(last=False)
        return document

    def _may_be_sent(self, uri: str) -> bool:
        return self._options.private or not self._is_private(uri)

    def _is_private(self, uri: str) -> bool:
        """Return whether a document's text must not leave this machine; asked anew each time, as lists change."""
        return not may_reach_disk(uri, self._private_files) or is_text_ignored(file_path(uri) or "")


def _sent(request: Request) -> Request:
    """Return a request without what stays on this machine."""
    return replace(request, others=(), counts=None, context=NO_CONTEXT, excluded_files=frozenset(), modules=None)


def asking_server(served: RemoteModel | None, settings: Settings, client: str = "") -> ElsewhereAnswerer | None:
    """Return who asks the server that the settings name, None if they name none."""
    if served is None:
        return None
    return ElsewhereAnswerer(RemoteDocuments(served, settings, client), settings.engine.wait_seconds)
