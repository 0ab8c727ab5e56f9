"""The last answer in each document: it tells why nothing is shown at its place."""

from __future__ import annotations

from dataclasses import replace

from efim_ls.access.reasons import Refusal, refusal
from efim_ls.request import Answer, Request


class LastAnswers:
    """The last answer of each document that is open. Used on the event loop only."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Request, Answer]] = {}

    def note(self, request: Request, answer: Answer) -> None:
        """Remember an answer in place of an older one in the same document."""
        self._last[request.uri] = replace(request, others=()), answer  # texts of documents that may be closed soon

    def why_nothing(self, uri: str, text: str, cursor: int) -> Refusal | None:
        """Why the last answer was nothing, if it was, at this very place of this very text."""
        if uri not in self._last:
            return None
        request, answer = self._last[uri]
        if answer.reason is None or (request.cursor, request.text) != (cursor, text):
            return None
        return refusal(answer.reason, confidence=answer.confidence, least=request.least)

    def forget(self, uri: str) -> None:
        """Drop what was answered in a document."""
        self._last.pop(uri, None)
