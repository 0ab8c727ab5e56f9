"""What the server knows between messages: open documents, settings, the model and counters. No LSP types."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal

from efim_ls.answer import Ahead, Answer, Costs, Reason, Request
from efim_ls.completer import Completer, Load, Progress, load_in_place_of
from efim_ls.counters import Counters
from efim_ls.debounce import Debounce
from efim_ls.document import Document
from efim_ls.engine_thread import EngineThread, Stopped, Superseded
from efim_ls.foresight import Foresight
from efim_ls.lines import line_end_in
from efim_ls.settings import Settings
from efim_ls.sharing import Sharing
from efim_ls.stillness import Stillness
from model_runtime.errors import ModelError

# Most of other documents that a completion reads: more text slows every token, more files outgrow cached tokens.
OTHERS, CHARACTERS_OF_OTHERS = 32, 200_000
REST = 5.0  # seconds after an answer in which nothing is asked: frames that change sooner are not worth writing
SETTLING, POLLING = 60.0, 0.01  # seconds in which a disk must have written what waits, and between looks
LOADING = object()  # the key of the job that loads a model; those of completions are URIs

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Status:
    """Whether completions can be had, and a sentence for people."""

    state: Literal["loading", "ready", "error", "off"]
    message: str


class Session:
    """One client's. Used on the event loop only; whatever touches the completer is sent to the engine thread."""

    def __init__(self, load: Load) -> None:
        self.documents: dict[str, Document] = {}
        self.settings = Settings()
        self.counters = Counters()
        self.engine = EngineThread()
        self.debounce = Debounce()
        self.foresight = Foresight(self.engine)
        self._at_rest = Stillness(REST)
        self._load = load
        self._sharing = Sharing(self._begin)
        self._completer: Completer | None = None
        self._replaced: list[Completer] = []  # models that the engine thread has still to let go of
        self._loaded_for: Settings | None = None
        self._description: dict[str, object] = {}
        self._model = Status("loading", "waiting for the client")

    @property
    def status(self) -> Status:
        """Whether completions can be had now."""
        if self.settings.enabled:
            return self._model
        return Status("off", "completion is switched off by the setting 'enabled'")

    def use(self, uri: str) -> Document | None:
        """The open document of this name, which from now on is the one used last."""
        document = self.documents.pop(uri, None)
        if document is not None:
            self.documents[uri] = document
        return document

    def others(self, document: Document) -> tuple[str, ...]:
        """Texts of the other open documents in its language, the one used last at the end: those that fit, whole."""
        room, texts = CHARACTERS_OF_OTHERS, list[str]()
        for other in reversed(self.documents.values()):
            alike = other is not document and other.language == document.language
            if alike and len(other.text) <= room and not self._too_large(other.text):
                room -= len(other.text)
                texts.append(other.text)
        return tuple(reversed(texts[:OTHERS]))

    def describe(self) -> dict[str, object]:
        """The status, and what runs where and why, once there is a model."""
        return asdict(self.status) | (self._description if self._completer else {})

    def configure(self, settings: Settings) -> bool:
        """Adopt settings; true when the model has to be loaded for them."""
        self.settings = settings
        self.engine.allowance.seconds = settings.ahead_seconds_per_minute if settings.enabled else 0
        return settings.enabled and settings.of_model != self._loaded_for

    async def load(self, progress: Progress) -> None:
        """Load the model that the settings ask for; the status says what came of it."""
        settings = self.settings
        if self._completer is not None:
            self._replaced.append(self._completer)
        self._at_rest.cancel_all()
        for uri in self.documents:
            self.foresight.drop(uri)
            self.engine.drop_ahead(_keeping(uri))
        self._completer, self._loaded_for = None, settings.of_model
        self._model = Status("loading", "the model is being loaded")
        try:
            self.engine.renice(settings.niceness)  # first: threads that the model starts take after it
            self._completer, self._description = await self.engine.run(
                LOADING, lambda stopped: load_in_place_of(self._replaced, self._load, settings, progress, stopped)
            )
        except Superseded:
            return
        except ModelError as error:
            self._model = Status("error", str(error))
        except Exception as error:
            logger.error("the model could not be loaded", exc_info=error)
            self._model = Status("error", f"loading the model failed ({type(error).__name__}): see the log")
        else:
            self._model = Status("ready", "the model is ready")
            if self.documents:
                self.rested(next(reversed(self.documents.values())))

    async def complete(self, request: Request) -> Answer:
        """The text to insert at the cursor, often none; the counters tell why, and what it cost."""
        if reason := self._refusal(request):
            self.refuse(request.uri, reason)
            return Answer("", reason=reason)
        try:
            answer = await self._sharing.answer(request.uri, request)
        except Superseded:
            answer = Answer("", reason="superseded")
        except asyncio.CancelledError:
            self.counters.answered["cancelled"] += 1
            raise
        except Exception as error:
            logger.error("a completion failed", exc_info=error)
            answer = Answer("", reason="error")
            self.counters.note(request.uri, answer.reason)
        self.counters.answered[answer.reason or "suggestion"] += 1
        return answer

    def report(self) -> dict[str, object]:
        """All counters as plain values."""
        completer = self._completer
        kept = {
            "ahead": asdict(completer.ahead if completer else Ahead()),
            "tiers": completer.tiers if completer else [],
        }
        return self.counters.report() | kept

    def refuse(self, uri: str, reason: Reason) -> None:
        """Count a request that is answered without the model."""
        self.counters.answered[reason] += 1
        self.counters.note(uri, reason)

    def rested(self, document: Document) -> None:
        """Work ahead for the place where a document's cursor may rest, as far as completions can be had there."""
        self.foresight.when_still(document.uri, lambda: self._work_ahead_in(document))

    async def explain(self, request: Request) -> dict[str, object]:
        """What the prompt of a request would be and cost, or the reason why there is none."""
        completer, reason = self._completer, self._refusal(request)
        if reason or completer is None:
            return unexplained(reason)
        return await self.engine.run(object(), lambda _: completer.explain(request))

    def forget(self, uri: str) -> None:
        """Drop all that is known of a document, but what may be wanted should it come back."""
        self.documents.pop(uri, None)
        self.foresight.drop(uri)
        self.engine.supersede(uri)
        if completer := self._completer:
            self.engine.run(("forget", uri), lambda _: completer.forget(uri)).add_done_callback(_log_failure)
            self._keep(uri)

    async def settled(self) -> None:
        """Wait until nothing is queued, under way or to be written, save for what waits for its allowance."""
        await self.foresight.settled()
        self._at_rest.hurry()
        await self.foresight.settled()
        end = asyncio.get_running_loop().time() + SETTLING
        while (completer := self._completer) and not completer.flush(0) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(POLLING)

    def close(self, seconds: float) -> bool:
        """End, with what was computed written behind; false if the engine thread is still at work after so long.

        For when the event loop has ended: nobody waits for answers any more.
        """
        if not self.engine.close(seconds):
            return False
        for completer in [*self._replaced, *([self._completer] if self._completer else [])]:
            completer.close(seconds)
        return True

    def _refusal(self, request: Request) -> Reason | None:
        if not self.settings.enabled:
            return "disabled"
        if self._completer is None:
            return "no model" if self._model.state == "error" else "loading"
        return "file too large" if self._too_large(request.text) else None

    def _too_large(self, text: str) -> bool:
        return len(text) > self.settings.max_file_kib * 1024

    def _begin(self, request: Request) -> asyncio.Future[Answer]:
        wait = 0.0
        if not request.explicit:
            now = asyncio.get_running_loop().time()
            self.debounce.note_request(now, overtakes=self.engine.is_asked(request.uri))
            wait = self.debounce.delay()
        return self.engine.run(request.uri, self._completion(request), after=wait)

    def _completion(self, request: Request) -> Callable[[Stopped], Answer]:
        completer, loop = self._completer, asyncio.get_running_loop()
        assert completer is not None

        def job(stopped: Stopped) -> Answer:
            answer = completer.complete(request, stopped)
            # Not left to whoever waits: tokens of an answer that nobody waits for any more were computed too.
            loop.call_soon_threadsafe(self._spend, request, answer)
            return answer

        return job

    def _spend(self, request: Request, answer: Answer) -> None:
        self.counters.spend(request.uri, answer)
        costs = answer.costs
        if costs.passes:
            self.debounce.note_step(costs.ms.decode / costs.passes, costs.ms.prefill)
        if answer.reason != "superseded":
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

    def _may_foresee(self, request: Request) -> bool:
        return request.uri in self.documents and self._refusal(request) is None


def accepted(request: Request, suggested: str) -> Request:
    """What would be asked next if the suggestion were accepted."""
    inserted = suggested.replace("\n", line_end_in(request.text))
    before, after = request.text[: request.cursor] + inserted, request.text[request.cursor :]
    return replace(request, text=before + after, cursor=len(before))


def unexplained(reason: Reason | None) -> dict[str, object]:
    """What explains a request that would not reach the model."""
    parts = dict.fromkeys(("prompt", "head", "tail", "typed", "rest"), "")
    return {**parts, "costs": asdict(Costs()), "reason": reason}


def _log_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) and not isinstance(error, Superseded):
        logger.error("a closed document could not be forgotten", exc_info=error)


def _keeping(uri: str) -> tuple[str, str]:
    """The key of the work that keeps a document."""
    return "keep", uri
