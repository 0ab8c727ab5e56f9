"""What the server knows between messages: open documents, settings, the model and counters. No LSP types."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from efim_ls.answer import Answer, Costs, Reason, Request
from efim_ls.document import Document
from efim_ls.engine_thread import EngineThread, Stopped, Superseded
from efim_ls.settings import Settings
from model_runtime.errors import ModelError

Progress = Callable[[str, int], None]
Event = Literal["shown", "accepted", "partially_accepted"]
REMEMBERED = 1000  # suggestions whose fate may still be reported, and answers whose times are kept
# Most of other documents that a completion reads: more text slows every token, more files outgrow cached tokens.
OTHERS, CHARACTERS_OF_OTHERS = 32, 200_000
NO_COSTS = Costs()
LOADING = object()  # the key of the job that loads a model; those of completions are URIs

logger = logging.getLogger(__name__)


class Completer(Protocol):
    """A loaded model. Used on the engine thread only."""

    def complete(self, request: Request, stopped: Stopped, /) -> Answer: ...
    def explain(self, request: Request, /) -> dict[str, object]: ...
    def forget(self, uri: str, /) -> None: ...
    def describe(self) -> dict[str, object]: ...


Load = Callable[[Settings, Progress], Completer]


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
        self._load = load
        self._completer: Completer | None = None
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
        return settings.enabled and settings.of_model != self._loaded_for

    async def load(self, progress: Progress) -> None:
        """Load the model that the settings ask for; the status says what came of it."""
        settings = self.settings
        self._completer, self._loaded_for = None, settings.of_model
        self._model = Status("loading", "the model is being loaded")
        try:
            self._completer, self._description = await self.engine.run(
                LOADING, lambda _: _loaded(self._load, settings, progress)
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

    async def complete(self, request: Request) -> str:
        """The text to insert at the cursor, often none; the counters tell why, and what it cost."""
        if reason := self._refusal(request):
            self.refuse(request.uri, reason)
            return ""
        text, outcome = "", "error"
        try:
            answer = await self.engine.run(request.uri, self._completion(request))
            text, outcome = answer.text, answer.reason or "suggestion"
        except Superseded:
            outcome = "superseded"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception as error:
            logger.error("a completion failed", exc_info=error)
            self.counters.note(request.uri, outcome)
        finally:
            self.counters.answered[outcome] += 1
        return text

    def refuse(self, uri: str, reason: Reason) -> None:
        """Count a request that is answered without the model."""
        self.counters.answered[reason] += 1
        self.counters.note(uri, reason)

    async def explain(self, request: Request) -> dict[str, object]:
        """What the prompt of a request would be and cost, or the reason why there is none."""
        completer, reason = self._completer, self._refusal(request)
        if reason or completer is None:
            return unexplained(reason)
        return await self.engine.run(object(), lambda _: completer.explain(request))

    def forget(self, uri: str) -> None:
        """Drop all that is kept for a document."""
        self.documents.pop(uri, None)
        self.engine.supersede(uri)
        if completer := self._completer:
            self.engine.run(("forget", uri), lambda _: completer.forget(uri)).add_done_callback(_log_failure)

    def _refusal(self, request: Request) -> Reason | None:
        if not self.settings.enabled:
            return "disabled"
        if self._completer is None:
            return "no model" if self._model.state == "error" else "loading"
        return "file too large" if self._too_large(request.text) else None

    def _too_large(self, text: str) -> bool:
        return len(text) > self.settings.max_file_kib * 1024

    def _completion(self, request: Request) -> Callable[[Stopped], Answer]:
        completer, loop = self._completer, asyncio.get_running_loop()
        assert completer is not None

        def job(stopped: Stopped) -> Answer:
            answer = completer.complete(request, stopped)
            # Not left to whoever waits: tokens of an answer that nobody waits for any more were computed too.
            loop.call_soon_threadsafe(self.counters.spend, request.uri, answer)
            return answer

        return job


class Counters:
    """What was asked, answered, spent and done with the suggestions, since the start. Stays in this process."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self._events: Counter[Event] = Counter()
        self._tokens: Counter[str] = Counter()
        self._milliseconds: deque[float] = deque(maxlen=REMEMBERED)
        self._last: tuple[str, str | None, Costs] | None = None
        self._offers: dict[str, set[Event]] = {}
        self._numbers = itertools.count(1)

    def note(self, uri: str, reason: str | None, costs: Costs = NO_COSTS) -> None:
        """Remember what the last answer was."""
        self._last = (uri, reason, costs)

    def spend(self, uri: str, answer: Answer) -> None:
        """Add up what an answer of the model cost."""
        self.note(uri, answer.reason, answer.costs)
        self._tokens.update(recomputed=answer.costs.recomputed, reused=answer.costs.reused)
        if answer.reason != "superseded":
            self._milliseconds.append(answer.costs.ms.total)

    def offer(self) -> str:
        """Return the id by which a client will tell what became of a suggestion."""
        number = str(next(self._numbers))
        self._offers[number] = set()
        if len(self._offers) > REMEMBERED:
            del self._offers[next(iter(self._offers))]
        return number

    def tell(self, number: str, event: Event) -> None:
        """Count what became of a suggestion, once; ids that are unknown or forgotten count nothing."""
        seen = self._offers.get(number)
        if seen is not None and event not in seen:
            seen.add(event)
            self._events[event] += 1

    def report(self) -> dict[str, object]:
        """All of it as plain values."""
        uri, reason, costs = self._last or (None, None, None)
        return {
            "requests": self.answered.total(),
            "answered": dict(self.answered),
            "shown": self._events["shown"],
            "accepted": self._events["accepted"],
            "partially_accepted": self._events["partially_accepted"],
            "tokens": {"recomputed": self._tokens["recomputed"], "reused": self._tokens["reused"]},
            "ms": {f"p{percent}": _percentile(self._milliseconds, percent) for percent in (50, 95)},
            "last": costs and asdict(costs),
            "last_reason": reason,
            "last_uri": uri,
        }


def unexplained(reason: Reason | None) -> dict[str, object]:
    """What explains a request that would not reach the model."""
    parts = dict.fromkeys(("prompt", "head", "tail", "typed", "rest"), "")
    return {**parts, "costs": asdict(NO_COSTS), "reason": reason}


def _log_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) and not isinstance(error, Superseded):
        logger.error("a closed document could not be forgotten", exc_info=error)


def _loaded(load: Load, settings: Settings, progress: Progress) -> tuple[Completer, dict[str, object]]:
    completer = load(settings, progress)
    return completer, completer.describe()


def _percentile(values: deque[float], percent: int) -> float | None:
    return sorted(values)[(len(values) - 1) * percent // 100] if values else None
