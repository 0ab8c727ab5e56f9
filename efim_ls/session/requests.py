"""A session's requests: equal ones share an answer, a document's latest wins, bursts are delayed, each is counted."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import cast

from efim_ls.access.reasons import Refusal, as_dict, explain_refusal, refusal
from efim_ls.request import Answer, BetterAnswer, Reason, Request
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.session.engine_thread import EngineClient, Job
from efim_ls.session.loader import ModelLoader
from efim_ls.usage.counters import Counters
from model_runtime.cancel import Cancel, Cancelled

LONGEST_GAP = 1.0  # seconds: a longer gap is a pause to think, not part of the typing rhythm
FASTEST_GAP = 0.03  # seconds: about the repeat rate of a held key; answers need not be faster
LONGEST_DELAY = 0.3  # seconds: the most that other tools wait; after a longer wait a machine feels unresponsive
SHORT_ANSWER_STEPS = 8  # decode steps of a short answer: about the rest of a line
RECENT_SAMPLES = 20  # samples of each kind: few, so that a change of the machine's load is noticed within some words
PAUSE = 0.4  # seconds: about twice a normal gap between keystrokes
TURN = 0.02  # seconds after which an answer yields to other clients' answers, and continues behind them
FEWEST_SAMPLES = 5  # samples of each kind below which there is no delay

logger = logging.getLogger(__name__)


class Debounce:
    """Compares the cost of an answer with the time between keys. Times are seconds unless named `ms`."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._overtakes = False
        self._gaps: deque[float] = deque(maxlen=RECENT_SAMPLES)
        self._steps: deque[float] = deque(maxlen=RECENT_SAMPLES)
        self._firsts: deque[float] = deque(maxlen=RECENT_SAMPLES)

    def note_request(self, now: float, overtakes: bool) -> None:
        """Note the time of an automatic request, by any monotonic clock.

        `overtakes`: the previous request is not answered yet. Otherwise there is no burst, and no delay.
        """
        self._overtakes = overtakes
        if self._last is not None and now - self._last <= LONGEST_GAP:
            self._gaps.append(now - self._last)
        self._last = now

    def note_step(self, ms: float, first_ms: float) -> None:
        """Note an answer's milliseconds per decode step, and those to its first new token."""
        self._steps.append(ms)
        self._firsts.append(first_ms)

    def delay(self) -> float:
        """Return the delay: 0 if an answer takes at most half a typical gap, rising to a gap if it takes a gap."""
        if not self._overtakes or min(len(self._gaps), len(self._steps)) < FEWEST_SAMPLES:
            return 0.0
        cost = (median(self._firsts) + SHORT_ANSWER_STEPS * median(self._steps)) / 1e3
        gap = max(FASTEST_GAP, median(self._gaps))
        return min(max(0.0, 2 * cost - gap), gap, LONGEST_DELAY)


class _UnderWay:
    """A request in a document, its answer, whoever waits for it, and whether a newer request has come."""

    def __init__(self, request: Request, language: str, text: str) -> None:
        self.request, self.language, self.text, self.asking = request, language, text, 0
        self.computed: asyncio.Future[Answer]  # here, before a model elsewhere may answer better
        self.answer: asyncio.Future[Answer]
        self.is_outdated = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether an equal request can no longer share the answer."""
        computed = self.computed
        failed = computed.done() and (computed.cancelled() or computed.exception() is not None)
        return failed or self.answer.done()


class Requests:
    """Answers a session's requests and counts their outcomes. Used on the event loop only.

    Each document's latest request goes to the engine thread, under the document's URI.
    """

    def __init__(
        self,
        engine: EngineClient,
        documents: OpenDocuments,
        model: ModelLoader,
        counters: Counters,
        answered: Callable[[OpenDocument, Request, Answer], None],
    ) -> None:
        """Call `answered` after each answer in an open document, unless a newer request superseded it."""
        self.debounce = Debounce()
        self.only_by_key = False  # whether typing asks for nothing
        self.waits_for_rest = True  # with suggestions for a pause in typing; some clients wait themselves
        self.show_after = 0.0  # seconds without a key before a new suggestion
        self.patience = 0.0  # seconds in which a better answer counts
        # Called with a document that has a better answer; without it, answers wait for these.
        self.improved: Callable[[str], None] | None = None
        self.improving: asyncio.Future[None] | None = None  # the last wait for one
        self._engine, self._documents, self._model, self._counters = engine, documents, model, counters
        self._answered = answered
        self._under_way: dict[str, _UnderWay] = {}

    async def complete(self, request: Request) -> Answer:
        """Return the answer to a request, which may be empty, and count it with its reason."""
        document = self._documents.get(request.uri)  # it may be closed before the answer
        language, text = (document.language, document.text) if document else ("", "")
        began = asyncio.get_running_loop().time()
        self._engine.note_typing()
        if off := self._why_not(request) or self._why_unasked(request):
            self.refuse(request.uri, off.reason)
            return Answer("", reason=off.reason)
        try:
            answer = await self._answer(request, language)
            if (held := self._held_for(request, answer, began)) > 0:
                await self._pause(request.uri, text, held)
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

    def _held_for(self, request: Request, answer: Answer, began: float) -> float:
        """Return for how many seconds to hold an answer back: no user's delay if it is shown or a key asked."""
        if not self.waits_for_rest:
            return 0.0
        pause, document = PAUSE if answer.at_rest else 0.0, self._documents.get(request.uri)
        if request.explicit or not answer.text or (document and document.is_shown(request, answer)):
            return pause
        return max(pause, self.show_after - (asyncio.get_running_loop().time() - began))

    async def _pause(self, uri: str, text: str, seconds: float) -> None:
        """Wait while nobody types; raises Cancelled if the document has another text by then."""
        await asyncio.sleep(seconds)
        document = self._documents.get(uri)
        if document is None or document.text != text:
            raise Cancelled

    async def explain(self, request: Request) -> dict[str, object]:
        """Return the prompt and costs of a request, the last suggestion here, and why there is or was none."""
        completer, off = self._model.completer, self._why_not(request)
        if off is not None or completer is None:
            return explain_refusal(off or refusal("loading"))
        document, place = self._documents.get(request.uri), (request.text, request.cursor)
        answered = document and document.last_answer(*place)
        explained = await self._engine.run(object(), lambda _: completer.explain(request, answered))
        unfit = cast("Reason | None", explained["reason"])
        nothing = document.why_nothing(*place) if document and answered else self._why_unasked(request)
        return explained | as_dict(refusal(unfit) if unfit else nothing)

    def refuse(self, uri: str, reason: Reason) -> None:
        """Count a request that is answered without the model."""
        self._counters.count_refusal(uri, self._documents.language(uri), reason)

    def notice(self, uri: str) -> str | None:
        """Return a sentence for users about what the loaded model lacks in an open document, else None."""
        document, completer = self._documents.get(uri), self._model.completer
        return completer.notice(self.language_at_cursor(uri)) if document and completer else None

    def language_at_cursor(self, uri: str) -> str:
        """Return the language in which an open document is completed at its last known cursor, empty if not open."""
        document, completer = self._documents.get(uri), self._model.completer
        part = document and document.part
        if part is None or completer is None:
            return document.language if document else ""
        return completer.models.language_in(part)

    async def _answer(self, request: Request, language: str) -> Answer:
        """Return the answer to a request, shared with an equal one in progress; raises what its job raises.

        A different request supersedes the document's older one, whose callers get `Cancelled`. Cancelling this stops
        the job unless another caller waits for it.
        """
        uri, work = request.uri, self._under_way.get(request.uri)
        if work is None or work.is_over or work.request != request:
            if work is not None:
                work.is_outdated.set()
            document = self._documents.get(uri)
            work = self._under_way[uri] = _UnderWay(request, language, document.text if document else "")
            job = self._job(request, language)
            computed = self._engine.run(uri, job, after=self._wait_before(request), turn=TURN)
            if completer := self._model.completer:
                held = ExitStack()
                held.enter_context(completer.answering())
                computed.add_done_callback(lambda _: held.close())
            work.computed, work.answer = computed, asyncio.ensure_future(self._best(work))
            work.answer.add_done_callback(lambda _: computed.cancel())  # it may be cancelled before it has started
        work.asking += 1
        try:
            return await asyncio.shield(work.answer)
        finally:
            work.asking -= 1
            if not work.asking:
                work.answer.cancel()
                if self._under_way.get(uri) is work:
                    del self._under_way[uri]

    async def _best(self, work: _UnderWay) -> Answer:
        """Return an answer at once if the client can be notified of a better one, else the better one if it comes.

        Raises what the job raises, and Cancelled if a newer request comes while this one waits.
        """
        answer = await work.computed
        if answer.better is None:
            return answer
        if self.improved is not None:
            self.improving = asyncio.ensure_future(self._improve(work, answer, answer.better))
            return answer
        better = await self._better(work, answer, answer.better)
        if work.is_outdated.is_set():
            raise Cancelled
        answer.better.is_shown = better is not None
        if better is not None:
            self._count_costs(work.request, work.language, better)
        return better or answer

    async def _improve(self, work: _UnderWay, answer: Answer, coming: BetterAnswer) -> None:
        """Tell the client of a better answer that reads otherwise, for it to ask again, unless it has typed since."""
        uri = work.request.uri
        if (better := await self._better(work, answer, coming)) is None:
            return
        self._counters.count_costs(uri, work.language, better)
        document = self._documents.get(uri)
        is_here = document is not None and document.text == work.text
        if is_here and better.text != answer.text and self.improved is not None:
            self.improved(uri)

    async def _better(self, work: _UnderWay, answer: Answer, coming: BetterAnswer) -> Answer | None:
        """Return a better answer if it comes in time, and before a newer request does."""
        better, outdated = asyncio.wrap_future(coming), asyncio.ensure_future(work.is_outdated.wait())
        try:
            await asyncio.wait({better, outdated}, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
            if outdated.done() or not better.done() or better.cancelled() or better.result() == answer:
                return None
            return better.result()
        finally:
            outdated.cancel()
            better.cancel()

    def _why_not(self, request: Request) -> Refusal | None:
        """Return why a request would not reach the model, None if it would."""
        off = self._documents.why_off(request.uri, len(request.text))
        if off is not None or self._model.completer is not None:
            return off
        status = self._model.status
        return refusal("no model", cause=status.message) if status.state == "error" else refusal("loading")

    def _why_unasked(self, request: Request) -> Refusal | None:
        """Return why typing does not ask the model, None if it does or a key asks."""
        return refusal("on request") if self.only_by_key and not request.explicit else None

    def _wait_before(self, request: Request) -> float:
        if request.explicit:
            return 0.0
        self.debounce.note_request(asyncio.get_running_loop().time(), self._engine.is_pending(request.uri))
        return self.debounce.delay()

    def _job(self, request: Request, language: str) -> Job[Answer]:
        completer, loop = self._model.completer, asyncio.get_running_loop()
        assert completer is not None

        def job(cancel: Cancel) -> Answer:
            answer = completer.complete(request, cancel)
            if answer.reason == "superseded" and cancel.resumes:
                raise Cancelled  # its rows stay, and are reused in the next turn
            # Counted here and not by the caller, since a caller that has gone leaves computed tokens behind.
            loop.call_soon_threadsafe(self._computed, request, language, answer)
            return answer

        return job

    def _computed(self, request: Request, language: str, answer: Answer) -> None:
        """Learn from what an answer cost that was computed here, and count it."""
        if (costs := answer.costs).passes:
            self.debounce.note_step(costs.ms.decode / costs.passes, costs.ms.prefill)
        self._count_costs(request, language, answer)

    def _count_costs(self, request: Request, language: str, answer: Answer) -> None:
        """Count the costs of an answer, and let the work begin that follows it."""
        self._counters.count_costs(request.uri, language, answer)
        document = self._documents.get(request.uri)
        if document and answer.reason != "superseded" and self._documents.why_off(request.uri) is None:
            self._answered(document, request, answer)

    def _count_answer(self, request: Request, language: str, answer: Answer) -> None:
        """Count an answer, and remember it if its document is open."""
        if answer.reason == "error":
            self._counters.count_refusal(request.uri, language, "error")
        else:
            self._counters.count_answer(language, answer.reason or "suggestion")
        if (document := self._documents.get(request.uri)) is not None:
            document.note_answer(request, answer)
