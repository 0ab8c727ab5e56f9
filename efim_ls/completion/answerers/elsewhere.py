"""Answers with a model elsewhere, on another thread or another machine, so that the answers of here do not wait.

This machine's models answer at once, and a larger model elsewhere answers better if it comes in time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, NamedTuple, Protocol

from efim_ls.completion.answerers.document_state import Answerer, DocumentState
from efim_ls.completion.answerers.model import ModelAnswerer
from efim_ls.completion.suggestions.recent import Asked
from efim_ls.request import Ahead, Answer, BetterAnswer, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.engine.output import TextProbability
from model_runtime.prompt.context import ContextBudget

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds without requests after a failure, and after many in a row

Progress = Callable[[str, int], None]

logger = logging.getLogger(__name__)


class Told(NamedTuple):
    """What a model elsewhere says to a request, with the likelihood of its text if it is a new one."""

    answer: Answer
    likelihood: TextProbability | None = None


class ModelElsewhere(Protocol):
    """A client's documents, as a model elsewhere completes them.

    Used on the thread that `submit` leads to; a method that any thread may call says so.
    """

    source: str  # of its answers, in plain words

    @property
    def languages(self) -> Collection[str]:
        """The languages that it answers in, none while it cannot answer; on any thread."""
        ...

    @property
    def trouble(self) -> str:
        """Why it could not answer last, as a sentence for users, empty if it could; on any thread."""
        ...

    @property
    def context_budget(self) -> ContextBudget:
        """The most tokens of each part of other files' text; on any thread."""
        ...

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What each tier of it holds here; on any thread."""
        ...

    @property
    def ahead(self) -> Ahead:
        """Totals of prefetching here; on any thread."""
        ...

    def open(self, progress: Progress) -> Future[Any]:
        """Have the model opened, and return a future that raises ModelError if it cannot be; on any thread."""
        ...

    def submit(self, job: Callable[[], None]) -> Future[None]:
        """Have a job done on the model's thread, behind those that were submitted before; on any thread."""
        ...

    def answering(self) -> AbstractContextManager[None]:
        """Have what computes on this machine give way to an answer that a key waits for; on any thread."""
        ...

    def allow(self, seconds: float) -> None:
        """Set how many seconds of a minute this machine may compute ahead of need; on any thread."""
        ...

    def answer(self, request: Request, cancel: Cancel) -> Told | None:
        """Answer a request; None if it may not be asked."""
        ...

    def prepare(self, place: Upcoming, cancel: Cancel) -> None:
        """Compute what a completion will need, until `cancel()` is true."""
        ...

    def save(self, uri: str, cancel: Cancel) -> bool:
        """Save a document's frames, where it keeps them here; return false if stopped before the end."""
        ...

    def close_document(self, uri: str, save: bool) -> None:
        """Forget a document; with `save`, its frames stay until saved."""
        ...

    def forget_suggestions(self) -> None:
        """Forget the suggestions in all documents."""
        ...

    def rest(self, seconds: float) -> None:
        """Give back the memory of places where nobody has worked for so long."""
        ...

    def close(self, seconds: float, then: Settings | None) -> bool:
        """Save everything, as `Completer.close` does, and end; to be called on another thread."""
        ...

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all that was saved is written; return whether it is. On any thread."""
        ...

    def describe(self) -> dict[str, object]:
        """Return the machine's name as `remote`, or the model's as `larger` if it is here; on any thread."""
        ...

    def summaries(self) -> list[dict[str, object]]:
        """Return which model is in memory here, as `ModelInUse.summary` does; on any thread."""
        ...


class Arrived(NamedTuple):
    """An answer from elsewhere, and to what request."""

    request: Request
    told: Told


@dataclass(eq=False)
class _Asked:
    """A request that waits or is under way, or one to prefetch for, with what stops it."""

    request: Request
    ahead: Upcoming | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    answer: Future[Arrived | None] = field(default_factory=Future[Arrived | None])
    begun: float | None = None  # by the clock


class ElsewhereAnswerer:
    """Asks a model elsewhere, one request at a time; of waiting requests, only the latest is asked.

    A running request goes on while you type at its place: its answer may contain the typed text. After a
    failure the model gets a rest, which grows; the first request after it finds out whether it is back. Used on the
    engine thread only, unless a method says otherwise.
    """

    def __init__(self, model: ModelElsewhere, wait_seconds: float) -> None:
        """Own a client's use of the model, which `close` ends; a request is in time for `wait_seconds`."""
        self.model = model
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()  # held where these three change
        self._waiting: _Asked | None = None
        self._running: _Asked | None = None
        self._put_off: _Asked | None = None  # a place to compute for once the model is free
        self._pause, self._resumes_at = 0.0, 0.0
        self._arrived = dict[str, Arrived]()  # by document, until they are taken
        self._saving: Future[None] | None = None  # of the document that was to be saved last

    def stop_others(self, request: Request) -> None:
        """Stop the work that the next request makes useless, before that is asked."""
        self._stop(lambda each: not _goes_on(each, request) or (each is self._waiting and each.request != request))

    def ask(self, request: Request) -> Future[Arrived | None] | None:
        """Ask the model, and return the future of its answer, which is None if it has none.

        Return None instead while the model rests after a failure, or is late with an earlier request. The future is
        cancelled if another request comes before this one is asked. What runs is not stopped: see `stop_others`.
        """
        if monotonic() < self._resumes_at:
            return None
        with self._lock:
            for each in (self._waiting, self._running):
                if each and not each.ahead and each.request == request:
                    return each.answer if self._is_in_time(each) else None
            is_in_time = self._is_in_time(self._running)
            asked = self._queue(_Asked(request))
        return asked.answer if is_in_time else None

    def prepare(self, place: Upcoming) -> None:
        """Have the model compute what a completion will need, once it is free, unless it rests or more is asked."""
        with self._lock:
            self._put_off = _Asked(place.request, ahead=place)
            self._compute_ahead()

    def take(self, uri: str) -> Arrived | None:
        """Return the last answer in a document that has arrived and was not taken yet."""
        return self._arrived.pop(uri, None)

    def save(self, uri: str) -> None:
        """Have a document's frames saved, where the model keeps them here."""
        self._saving = self.model.submit(lambda: self._save(uri))

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all that was saved is written; return whether it is, and nothing is under way.

        On any thread.
        """
        is_saved = self._saving is None or self._saving.done()
        is_idle = self._waiting is None and self._running is None
        return is_saved and is_idle and self.model.flush(seconds)

    def close_document(self, uri: str, save: bool) -> None:
        """Forget a document, and stop computing for it; with `save`, its frames stay until saved."""
        self._stop(lambda each: each.request.uri == uri)
        self.model.submit(lambda: self._forget(uri, save))

    def forget_suggestions(self) -> None:
        """Forget the suggestions in all documents."""
        self.model.submit(self._forget_suggestions)

    def rest(self, seconds: float) -> None:
        """Have the memory of places given back where nobody has worked for so long."""
        self.model.submit(lambda: self.model.rest(seconds))

    def close(self, seconds: float, then: Settings | None) -> bool:
        """Stop the running request, save everything for up to `seconds`, and end; return whether that is done."""
        self._stop(lambda _: True)
        return self.model.close(seconds, then)

    def _stop(self, is_useless: Callable[[_Asked], bool]) -> None:
        """Stop what waits or runs and is useless."""
        with self._lock:
            if self._put_off is not None and is_useless(self._put_off):
                self._put_off = None
            for each in (self._waiting, self._running):
                if each is not None and is_useless(each):
                    each.stop.set()
                    each.answer.cancel()  # unless it is under way: then it soon ends

    def _compute_ahead(self) -> None:
        """Queue the place that was put off if the model is free; to be called with the lock."""
        if self._put_off and self._waiting is None and self._running is None:
            asked, self._put_off = self._put_off, None
            if monotonic() >= self._resumes_at:
                self._queue(asked)

    def _queue(self, asked: _Asked) -> _Asked:
        """Replace the waiting request; to be called with the lock."""
        if self._waiting is not None:
            self._waiting.answer.cancel()
        self._waiting = asked
        self.model.submit(lambda: self._work(asked))
        return asked

    def _is_in_time(self, asked: _Asked | None) -> bool:
        """Return whether a request has been under way for less than `wait_seconds`; true where there is none."""
        begun = asked and asked.begun
        return begun is None or monotonic() - begun < self._wait_seconds

    def _work(self, asked: _Asked) -> None:
        with self._lock:
            if self._waiting is asked:
                self._waiting = None
            if asked.stop.is_set() or not asked.answer.set_running_or_notify_cancel():
                return
            self._running, asked.begun = asked, monotonic()
        answer, cancel = None, Cancel(asked.stop.is_set)
        try:
            answer = self.model.prepare(asked.ahead, cancel) if asked.ahead else self._answer(asked.request, cancel)
        except Exception as error:  # the thread goes on, and answers of here do
            logger.error("asking a model elsewhere failed", exc_info=error)
            self._rest()
        finally:
            with self._lock:
                self._running = None
                self._compute_ahead()
            asked.answer.set_result(answer)

    def _answer(self, request: Request, cancel: Cancel) -> Arrived | None:
        if (told := self.model.answer(request, cancel)) is None or told.answer.reason == "superseded":
            return None
        if told.answer.reason == "no answer":
            self._rest()
            return None
        self._pause, answer = 0.0, told.answer
        source = answer.source or (self.model.source if answer.text else "")
        found = Arrived(request, told._replace(answer=replace(answer, source=source)))
        self._arrived[request.uri] = found
        return found

    def _rest(self) -> None:
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        self._resumes_at = monotonic() + self._pause

    def _save(self, uri: str) -> None:
        """Save a document's frames, behind the requests that come meanwhile."""
        if not self.model.save(uri, Cancel(lambda: self._waiting is not None)):
            self.save(uri)

    def _forget(self, uri: str, save: bool) -> None:
        self._arrived.pop(uri, None)
        self.model.close_document(uri, save)

    def _forget_suggestions(self) -> None:
        self._arrived.clear()
        self.model.forget_suggestions()


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


class HereThenElsewhere:
    """Answers as an answerer of here does, and asks a model elsewhere at the same time.

    The surer answer wins. An answer from elsewhere that comes too late for its request is remembered, and shown at
    the next key if that fits, unless a suggestion of here is being typed through: that stays. Used on the engine
    thread only.
    """

    def __init__(self, here: Answerer, elsewhere: ElsewhereAnswerer) -> None:
        """Answer with both, in the languages of the one here."""
        self.languages, self._here, self._elsewhere = here.languages, here, elsewhere
        self._last: tuple[Asked, Answer] | None = None  # the last answer, which a better one may replace

    def complete(self, document: DocumentState, asked: Asked, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, soon return it as superseded."""
        asked = self._adopt(document, asked)
        if asked.left and asked.left.typed and not asked.request.explicit:
            return self._here.complete(document, asked, cancel)
        self._elsewhere.stop_others(asked.request)
        answer = self._here.complete(document, asked, cancel)
        if answer.reason == "superseded":
            return answer
        coming = self._elsewhere.ask(asked.request)  # not before: planning there would take the interpreter from here
        answer = replace(answer, better=_better(coming, answer)) if coming else answer
        self._last = asked, answer
        return answer

    def prepare(self, document: DocumentState, place: Upcoming, cancel: Cancel) -> bool:
        """Compute here what a completion will need; the model elsewhere begins with it at once."""
        if place.because != "opened" and not document.is_preparing(place):
            self._elsewhere.prepare(place)
        return self._here.prepare(document, place, cancel)

    def explain(self, document: DocumentState, request: Request, answered: Answer | None) -> dict[str, object]:
        """Return the prompt of a request here, and the last answer there, `answered`."""
        return self._here.explain(document, request, answered)

    def _adopt(self, document: DocumentState, asked: Asked) -> Asked:
        """Remember an answer that has arrived, if it is the surer one; return the request as it is asked then."""
        arrived = self._elsewhere.take(asked.request.uri)
        before, here = self._last or (None, None)
        if not (arrived and before and here and before.request == arrived.request):
            return asked
        was_shown = here.better is not None and here.better.is_shown
        is_typed_through = asked.left is not None and asked.left.typed > 0
        answer, likelihood = arrived.told
        if (is_typed_through and not was_shown) or surer(here, answer) is here:
            return asked
        place = replace(before, seen=asked.seen)  # it stands, whatever was read here since it was asked for
        judged = likelihood if isinstance(self._here, ModelAnswerer) else None
        document.suggestions.add(place, judged.text if judged else answer.text, judged, source=answer.source)
        return document.ask(asked.request)


def surer(here: Answer, elsewhere: Answer) -> Answer:
    """Return the more confident answer, merging both lists if several were requested."""
    if not elsewhere.text or (here.text and (here.confidence or 0.0) >= (elsewhere.confidence or 0.0)):
        return here
    if here.text in ("", elsewhere.text):
        return replace(elsewhere, alternatives=here.alternatives)
    return replace(elsewhere, alternatives=(here.text, *here.alternatives) if here.alternatives else ())


def _better(coming: Future[Arrived | None], here: Answer) -> BetterAnswer:
    """Return the surer of two answers, once the one from elsewhere has come; cancelled if that is."""
    better = BetterAnswer()

    def choose(done: Future[Arrived | None]) -> None:
        with suppress(InvalidStateError):  # nobody waits for it any more
            if done.cancelled():
                better.cancel()
                return
            arrived = done.result()
            better.set_result(surer(here, arrived.told.answer) if arrived else here)

    coming.add_done_callback(choose)
    return better
