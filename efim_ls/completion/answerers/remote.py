"""Answers with the model on another machine, on a separate thread, so that local answers do not wait.

Local first: this machine answers at once, and a larger model elsewhere answers better if it comes in time.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import NamedTuple

from efim_ls.access.ignored import is_text_ignored
from efim_ls.access.secrets import may_reach_disk
from efim_ls.completion.answerers.document_state import Answerer, DocumentState
from efim_ls.completion.answerers.model import ModelAnswerer
from efim_ls.completion.models.open import RemoteModel
from efim_ls.completion.suggestions.recent import Asked
from efim_ls.languages.table import ANY
from efim_ls.paths import file_path
from efim_ls.request import Answer, BetterAnswer, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.engine.output import TextProbability
from model_runtime.prompt.context import NO_CONTEXT

MOST_DOCUMENTS = 64  # whose frames are remembered
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds without requests after a failure, and after many in a row

logger = logging.getLogger(__name__)


class RemoteAnswer(NamedTuple):
    """An answer from another machine, to what request, with the likelihood of its text if it is a new one."""

    request: Request
    answer: Answer
    likelihood: TextProbability | None


@dataclass(eq=False)
class _Asked:
    """A request that waits or is under way, or one to prefetch for, with what stops it."""

    request: Request
    ahead: Upcoming | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    answer: Future[RemoteAnswer | None] = field(default_factory=Future[RemoteAnswer | None])
    begun: float | None = None  # by the clock


class RemoteAnswerer:
    """Asks the model on another machine, one request at a time; of waiting requests, only the latest is sent.

    A running request goes on while you type at its place: its answer may contain the typed text. After a
    failure the server gets a rest, which grows; the first request after it finds out whether it is back. Used on the
    engine thread only, unless a method says otherwise.
    """

    def __init__(self, served: RemoteModel, settings: Settings, client: str = "") -> None:
        """Ask the server of a model, as the settings say; `client` is as in `ModelAnswerer`."""
        self.host, self._options = settings.engine.host, settings.engine
        self._private_files = settings.private_files
        self.languages = settings.model_languages or served.engine.describe().languages or (ANY,)
        limits = settings.max_new_tokens, settings.max_lines
        self._engine = served.engine
        self._model = ModelAnswerer(served, self.languages, limits, self._is_private, client)
        self._thread = ThreadPoolExecutor(1, "remote answers")
        self._lock = threading.Lock()  # held where these two change
        self._waiting: _Asked | None = None
        self._running: _Asked | None = None
        self._pause, self._resumes_at = 0.0, 0.0
        self._documents = OrderedDict[str, DocumentState]()  # of the thread; most recently used last
        self._arrived = dict[str, RemoteAnswer]()  # by document, until they are taken

    @property
    def trouble(self) -> str:
        """Why the server could not answer last, empty if it could; on any thread."""
        return self._model.trouble

    def ask(self, request: Request) -> Future[RemoteAnswer | None] | None:
        """Ask the server, and return the future of its answer, which is None if it has none.

        Return None instead while the server rests after a failure, or is late with an earlier request. The future is
        cancelled if another request comes before this one is sent.
        """
        if monotonic() < self._resumes_at:
            return None
        with self._lock:
            for each in (self._waiting, self._running):
                if each and not each.ahead and each.request == request:
                    return each.answer if self._is_in_time(each) else None
            running, is_in_time = self._running, self._is_in_time(self._running)
            asked = self._queue(_Asked(request))
        if running and not _goes_on(running, request):
            running.stop.set()
        return asked.answer if is_in_time else None

    def prepare(self, place: Upcoming) -> None:
        """Have the server compute what a completion will need, unless it is at work or rests."""
        with self._lock:
            if self._waiting is None and self._running is None and monotonic() >= self._resumes_at:
                self._queue(_Asked(place.request, ahead=place))

    def take(self, uri: str) -> RemoteAnswer | None:
        """Return the last answer in a document that has arrived and was not taken yet."""
        return self._arrived.pop(uri, None)

    def forget(self, uri: str | None = None) -> None:
        """Forget a document, or the suggestions in all."""
        self._thread.submit(self._forget, uri)

    def close(self) -> None:
        """Stop the running request, and end."""
        with self._lock:
            for each in (self._waiting, self._running):
                if each is not None:
                    each.stop.set()
                    each.answer.cancel()  # unless it is under way: then it soon ends
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _queue(self, asked: _Asked) -> _Asked:
        """Replace the waiting request; to be called with the lock."""
        if self._waiting is not None:
            self._waiting.answer.cancel()
        self._waiting = asked
        self._thread.submit(self._work, asked)
        return asked

    def _is_in_time(self, asked: _Asked | None) -> bool:
        """Return whether a request has been under way for less than `wait_seconds`; true where there is none."""
        begun = asked and asked.begun
        return begun is None or monotonic() - begun < self._options.wait_seconds

    def _work(self, asked: _Asked) -> None:
        with self._lock:
            if self._waiting is asked:
                self._waiting = None
            if asked.stop.is_set() or not asked.answer.set_running_or_notify_cancel():
                return
            self._running, asked.begun = asked, monotonic()
        answer = None
        try:
            answer = self._prepare(asked.ahead, asked.stop.is_set) if asked.ahead else self._answer(asked)
        except Exception as error:  # the thread goes on, and answers of this machine do
            logger.error("asking another machine failed", exc_info=error)
            self._rest()
        finally:
            with self._lock:
                self._running = None
            asked.answer.set_result(answer)

    def _answer(self, asked: _Asked) -> RemoteAnswer | None:
        request, document = self._sent(asked.request), self._document(asked.request.uri)
        if not self._may_be_sent(request.uri):
            return None
        answer = self._model.complete(document, document.ask(request), Cancel(asked.stop.is_set))
        if answer.reason == "no answer":
            self._rest()
            return None
        if answer.reason == "superseded":
            return None
        self._pause, origin = 0.0, document.answer_origin
        likelihood = origin.likelihood if origin and not origin.start and answer.text else None
        source = f"from the model on {self.host}" if answer.text else ""
        found = RemoteAnswer(asked.request, replace(answer, source=answer.source or source), likelihood)
        self._arrived[request.uri] = found
        return found

    def _prepare(self, place: Upcoming, is_stopped: Callable[[], bool]) -> None:
        request, document = self._sent(place.request), self._document(place.request.uri)
        if self._may_be_sent(request.uri):
            self._model.prepare(document, replace(place, request=request), Cancel(is_stopped))

    def _rest(self) -> None:
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        self._resumes_at = monotonic() + self._pause

    def _document(self, uri: str) -> DocumentState:
        document = self._documents.pop(uri, None) or DocumentState(self._model.new_planner)
        self._documents[uri] = document
        if len(self._documents) > MOST_DOCUMENTS:
            self._documents.popitem(last=False)
        return document

    def _forget(self, uri: str | None) -> None:
        if uri is None:
            self._arrived.clear()
            for document in self._documents.values():
                document.forget_suggestions()
            return
        self._arrived.pop(uri, None)
        self._engine.forget(self._model.document_name(uri))
        with suppress(KeyError):
            del self._documents[uri]

    def _sent(self, request: Request) -> Request:
        """Return a request without what stays on this machine."""
        return replace(request, others=(), counts=None, context=NO_CONTEXT, excluded_files=frozenset(), modules=None)

    def _may_be_sent(self, uri: str) -> bool:
        return self._options.private or not self._is_private(uri)

    def _is_private(self, uri: str) -> bool:
        """Return whether a document's text must not leave this machine; asked anew each time, as lists change."""
        return not may_reach_disk(uri, self._private_files) or is_text_ignored(file_path(uri) or "")


def _goes_on(running: _Asked, request: Request) -> bool:
    """Return whether a request is for the place of a running request, with nothing or more typed there."""
    before = running.request
    if running.ahead or before.uri != request.uri or before.explicit != request.explicit:
        return False
    rest = len(before.text) - before.cursor
    return (
        len(request.text) - request.cursor == rest
        and request.text.startswith(before.text[: before.cursor])
        and request.text.endswith(before.text[before.cursor :])
    )


class LocalThenRemote:
    """Answers as a local answerer does, and asks another machine at the same time.

    The surer answer wins. A remote answer that comes too late for its request is remembered, and shown at the next
    key if that fits, unless a local suggestion is being typed through: that stays. Used on the engine thread only.
    """

    def __init__(self, local: Answerer, remote: RemoteAnswerer) -> None:
        """Answer with both, in the languages of the local one."""
        self.languages, self._local, self._remote = local.languages, local, remote
        self._last: tuple[Asked, Answer] | None = None  # the last answer, which a better one may replace

    def complete(self, document: DocumentState, asked: Asked, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, soon return it as superseded."""
        asked = self._adopt(document, asked)
        if asked.left and asked.left.typed and not asked.request.explicit:
            return self._local.complete(document, asked, cancel)
        coming = self._remote.ask(asked.request)
        answer = self._local.complete(document, asked, cancel)
        if answer.reason == "superseded":
            return answer
        answer = replace(answer, better=_better(coming, answer)) if coming else answer
        self._last = asked, answer
        return answer

    def prepare(self, document: DocumentState, place: Upcoming, cancel: Cancel) -> bool:
        """Compute here what a completion will need; the other machine begins with it at once."""
        if place.because != "opened" and not document.is_preparing(place):
            self._remote.prepare(place)
        return self._local.prepare(document, place, cancel)

    def explain(self, document: DocumentState, request: Request, answered: Answer | None) -> dict[str, object]:
        """Return the local prompt of a request, and the last answer there, `answered`."""
        return self._local.explain(document, request, answered)

    def _adopt(self, document: DocumentState, asked: Asked) -> Asked:
        """Remember an answer that has arrived, if it is the surer one; return the request as it is asked then."""
        arrived = self._remote.take(asked.request.uri)
        before, local = self._last or (None, None)
        if not (arrived and before and local and before.request == arrived.request):
            return asked
        was_shown = local.better is not None and local.better.is_shown
        is_typed_through = asked.left is not None and asked.left.typed > 0
        if (is_typed_through and not was_shown) or surer(local, arrived.answer) is local:
            return asked
        if isinstance(self._local, ModelAnswerer) and arrived.likelihood is not None:
            document.suggestions.add(before, arrived.likelihood.text, arrived.likelihood)
        else:
            document.suggestions.add(before, arrived.answer.text)
        return document.ask(asked.request)


def surer(local: Answer, remote: Answer) -> Answer:
    """Return the more confident answer, merging both lists if several were requested."""
    if not remote.text or (local.text and (local.confidence or 0.0) >= (remote.confidence or 0.0)):
        return local
    if local.text in ("", remote.text):
        return replace(remote, alternatives=local.alternatives)
    return replace(remote, alternatives=(local.text, *local.alternatives) if local.alternatives else ())


def _better(coming: Future[RemoteAnswer | None], local: Answer) -> BetterAnswer:
    """Return the surer of two answers, once the other machine's has come; cancelled if that is."""
    better = BetterAnswer()

    def choose(done: Future[RemoteAnswer | None]) -> None:
        with suppress(InvalidStateError):  # nobody waits for it any more
            if done.cancelled():
                better.cancel()
                return
            arrived = done.result()
            better.set_result(surer(local, arrived.answer) if arrived else local)

    coming.add_done_callback(choose)
    return better
