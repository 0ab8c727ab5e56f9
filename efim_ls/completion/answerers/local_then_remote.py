"""Local first: this machine answers at once, and a larger model elsewhere answers better if it comes in time."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace

from efim_ls.completion.answerers.answerer import Answerer
from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.answerers.model import ModelAnswerer
from efim_ls.completion.answerers.remote import RemoteAnswer, RemoteAnswerer
from efim_ls.completion.suggestions.recent import Asked
from efim_ls.request import Answer, BetterAnswer, Request, Upcoming
from model_runtime.cancel import Cancel


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
