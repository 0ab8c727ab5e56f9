"""What the server knows between messages: open documents, settings, the model and counters. No LSP types."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import cast

from efim_ls.access.last_answers import LastAnswers
from efim_ls.access.reasons import Refusal, refusal, told, unexplained
from efim_ls.access.rules import Rules
from efim_ls.request import Ahead, Answer, Reason, Request, Status
from efim_ls.session.debounce import Debounce
from efim_ls.session.engine_thread import EngineThread, Stopped, Superseded
from efim_ls.session.model_loader import (
    Completer,
    Fetch,
    Load,
    Loader,
    Progress,
    failure,
    may_stay,
    nothing_to_fetch,
    rising,
)
from efim_ls.session.open_documents import texts_beside
from efim_ls.session.prefetch import Foresight, accepted
from efim_ls.session.sharing import Sharing
from efim_ls.session.stillness import Stillness
from efim_ls.settings import Settings
from efim_ls.text.document import Document
from efim_ls.usage.counters import Counters
from efim_ls.usage.fates import Fates
from efim_ls.usage.history import Statistics

REST = 5.0  # seconds after an answer in which nothing is asked: frames that change sooner are not worth writing
SETTLING, POLLING = 60.0, 0.01  # seconds in which a disk must have written what waits, and between looks

logger = logging.getLogger(__name__)


class Session:
    """One client's. Used on the event loop only; whatever touches the completer is sent to the engine thread."""

    def __init__(self, load: Load, fetch: Fetch = nothing_to_fetch) -> None:
        self.documents: dict[str, Document] = {}
        self.settings = Settings()
        self.statistics = Statistics(lambda: self.settings, logger.warning)
        self.counters = Counters(self.statistics.add)
        self.fates = Fates(self.counters)
        self.engine = EngineThread()
        self.debounce = Debounce()
        self.foresight = Foresight(self.engine)
        self._folders: tuple[str, ...] = ()
        self._rules = Rules(self.settings)
        self._last = LastAnswers()
        self._at_rest = Stillness(REST)
        self._loader = Loader(self.engine, load, fetch)
        self._sharing = Sharing(self._begin)
        self._completer: Completer | None = None
        self._loaded_for: Settings | None = None
        self._description: dict[str, object] = {}
        self._model = Status("loading", "waiting for the client")

    @property
    def status(self) -> Status:
        """Whether completions can be had now."""
        if self.settings.enabled:
            return self._model
        return Status("off", refusal("disabled").why)

    def use(self, uri: str) -> Document | None:
        """The open document of this name, which from now on is the one used last."""
        document = self.documents.pop(uri, None)
        if document is not None:
            self.documents[uri] = document
        return document

    def others(self, document: Document) -> tuple[str, ...]:
        """Texts of other open documents that a completion in this one reads."""
        return texts_beside(document, reversed(self.documents.values()), self._rules)

    def describe(self) -> dict[str, object]:
        """The status, and what runs where and why, once there is a model."""
        return asdict(self.status) | (self._description if self._completer else {})

    def configure(self, settings: Settings) -> bool:
        """Adopt settings; true when the model has to be loaded for them."""
        self.settings = settings
        self.engine.allowance.seconds = settings.ahead_seconds_per_minute if settings.enabled else 0
        self._judge_anew()
        return settings.enabled and settings.of_model != self._loaded_for

    def work_in(self, folders: Iterable[str]) -> None:
        """Adopt the URIs of the folders that the client works in."""
        self._folders = tuple(folders)
        self._judge_anew()

    def why_off(self, uri: str) -> Refusal | None:
        """Why a document gets no suggestions by the rules, if it gets none, whether there is a model or not."""
        document = self.documents.get(uri)
        return self._off(uri, len(document.text) if document else 0)

    async def load(self, progress: Progress) -> None:
        """Load the model that the settings ask for; the status says what came of it.

        While it is fetched, and if it cannot be, the one before it goes on.
        """
        settings, before, tell = self.settings, self._loaded_for, rising(progress)
        self._loaded_for = settings.of_model
        self._model = Status("loading", "the model is being loaded")
        if before and not may_stay(before, settings):
            self._let_go()
        try:
            await self._loader.fetch(settings, tell, self._completer is not None)
            self._let_go()
            self._completer, self._description = await self._loader.load(settings, tell)
        except Superseded:
            return
        except Exception as error:
            stays = "; the model before it goes on" if self._completer else ""
            self._model = Status("error", f"{failure(error)}{stays}")
        else:
            self._model = Status("ready", "the model is ready")
            if self.documents:
                self.rested(next(reversed(self.documents.values())))

    async def complete(self, request: Request) -> Answer:
        """The text to insert at the cursor, often none; the counters tell why, and what it cost."""
        language = self._language(request.uri)  # its document may be closed before the answer
        if off := self._refusal(request):
            self.refuse(request.uri, off.reason)
            return Answer("", reason=off.reason)
        try:
            answer = await self._sharing.answer(request.uri, request)
        except Superseded:
            answer = Answer("", reason="superseded")
        except asyncio.CancelledError:
            self._note(request, language, Answer("", reason="cancelled"))
            raise
        except Exception as error:
            logger.error("a completion failed", exc_info=error)
            answer = Answer("", reason="error")
            self.counters.note(request.uri, answer.reason)
        self._note(request, language, answer)
        return answer

    def report(self) -> dict[str, object]:
        """All counters as plain values."""
        ahead, tiers = (completer.ahead, completer.tiers) if (completer := self._completer) else (Ahead(), [])
        return self.counters.report() | {"ahead": asdict(ahead), "tiers": tiers}

    def refuse(self, uri: str, reason: Reason) -> None:
        """Count a request that is answered without the model."""
        self.counters.answer(self._language(uri), reason)
        self.counters.note(uri, reason)

    def rested(self, document: Document) -> None:
        """Work ahead for the place where a document's cursor may rest, as far as completions can be had there."""
        self.foresight.when_still(document.uri, lambda: self._work_ahead_in(document))

    async def explain(self, request: Request) -> dict[str, object]:
        """What the prompt of a request would be and cost, and why there is or was no suggestion."""
        completer, off = self._completer, self._refusal(request)
        if off is not None or completer is None:
            return unexplained(off or refusal("loading"))
        explained = await self.engine.run(object(), lambda _: completer.explain(request))
        unfit = cast("Reason | None", explained["reason"])
        nothing = refusal(unfit) if unfit else self._last.why_nothing(request.uri, request.text, request.cursor)
        return explained | told(nothing)

    def forget(self, uri: str) -> None:
        """Drop all that is known of a document, but what may be wanted should it come back."""
        off, document = self.why_off(uri), self.documents.pop(uri, None)
        self._last.forget(uri)
        self._rules.forget(uri, document.language if document else "")
        self.fates.closed(uri)
        self.foresight.drop(uri)
        self.engine.supersede(uri)
        self._tell_model(uri, keep=off is None)

    async def settled(self) -> None:
        """Wait until nothing is queued, under way or to be written, save for what waits for its allowance."""
        await self.foresight.settled()
        self._at_rest.hurry()
        await self.foresight.settled()
        end = asyncio.get_running_loop().time() + SETTLING
        while (completer := self._completer) and not completer.flush(0) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(POLLING)

    def close(self, seconds: float) -> bool:
        """End, with what was computed written behind; false if one of its threads is still at work after so long.

        For when the event loop has ended: nobody waits for answers any more.
        """
        self.fates.close()
        self.statistics.write()
        return self._loader.close(seconds, self._completer)

    def _let_go(self) -> None:
        """Have the model that is loaded, if one is, make room for the next one."""
        if self._completer is not None:
            self._loader.replace(self._completer)
        self._completer = None
        self._at_rest.cancel_all()
        for uri in self.documents:
            self.foresight.drop(uri)
            self.engine.drop_ahead(_keeping(uri))
            self.engine.supersede(uri)  # one that still waits would reach the model after it is let go of

    def _note(self, request: Request, language: str, answer: Answer) -> None:
        """Count an answer, and remember it while its document is open."""
        self.counters.answer(language, answer.reason or "suggestion")
        if request.uri in self.documents:
            self._last.note(request, answer)

    def _judge_anew(self) -> None:
        """Adopt rules that changed; drop what is under way or to be done for documents that are off now."""
        self._rules = Rules(self.settings, self._folders)
        for uri in filter(self.why_off, self.documents):
            self.foresight.drop(uri)
            self._at_rest.cancel(uri)
            self.engine.drop_ahead(_keeping(uri))
            self.engine.supersede(uri)
            self._tell_model(uri, keep=False)

    def _refusal(self, request: Request) -> Refusal | None:
        off = self._off(request.uri, len(request.text))
        if off is not None or self._completer is not None:
            return off
        return refusal("no model", cause=self._model.message) if self._model.state == "error" else refusal("loading")

    def _off(self, uri: str, size: int) -> Refusal | None:
        return self._rules.refusal(uri, self._language(uri), size)

    def _language(self, uri: str) -> str:
        return document.language if (document := self.documents.get(uri)) else ""

    def _begin(self, request: Request) -> asyncio.Future[Answer]:
        wait = 0.0
        if not request.explicit:
            now = asyncio.get_running_loop().time()
            self.debounce.note_request(now, overtakes=self.engine.is_asked(request.uri))
            wait = self.debounce.delay()
        return self.engine.run(request.uri, self._completion(request), after=wait)

    def _completion(self, request: Request) -> Callable[[Stopped], Answer]:
        completer, loop, language = self._completer, asyncio.get_running_loop(), self._language(request.uri)
        assert completer is not None

        def job(stopped: Stopped) -> Answer:
            answer = completer.complete(request, stopped)
            # Not left to whoever waits: tokens of an answer that nobody waits for any more were computed too.
            loop.call_soon_threadsafe(self._spend, request, language, answer)
            return answer

        return job

    def _spend(self, request: Request, language: str, answer: Answer) -> None:
        self.counters.spend(request.uri, language, answer)
        costs = answer.costs
        if costs.passes:
            self.debounce.note_step(costs.ms.decode / costs.passes, costs.ms.prefill)
        if answer.reason != "superseded" and self.why_off(request.uri) is None:
            self._work_ahead(accepted(request, answer.text))
            self._at_rest.after(request.uri, lambda: self._keep(request.uri))

    def _work_ahead_in(self, document: Document) -> None:
        """Prepare the place of a document's cursor or, where that was never told, its beginning."""
        request = Request(document.uri, document.text, document.cursor or 0)
        if document.cursor is not None:
            self._work_ahead(request)
        elif (completer := self._completer) and self._may_foresee(request):
            self.foresight.begin(document.uri, completer.foresee_opened(document.uri, document.text))

    def _work_ahead(self, request: Request) -> None:
        if (completer := self._completer) and self._may_foresee(request):
            self.foresight.begin(request.uri, completer.foresee(request))

    def _keep(self, uri: str) -> None:
        self._at_rest.cancel(uri)

        def keep(stopped: Stopped) -> bool:  # of the model that there is then: one that was replaced is not held
            return self._completer is None or self._completer.keep(uri, stopped)

        self.engine.behind(_keeping(uri), keep)

    def _tell_model(self, uri: str, keep: bool) -> None:
        """Have the model drop a document, at once or after what was computed for it is kept."""
        if completer := self._completer:
            forget = completer.forget if keep else completer.drop
            self.engine.run(("forget", uri), lambda _: forget(uri)).add_done_callback(_log_failure)
            if keep:
                self._keep(uri)

    def _may_foresee(self, request: Request) -> bool:
        return request.uri in self.documents and self._refusal(request) is None


def _log_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) and not isinstance(error, Superseded):
        logger.error("a closed document could not be forgotten", exc_info=error)


def _keeping(uri: str) -> tuple[str, str]:
    """The key of the work that keeps a document."""
    return "keep", uri
