"""What answers the requests of some languages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.suggestions.recent import Asked
from efim_ls.request import Answer, Request, Upcoming
from model_runtime.cancel import Cancel


class Answerer(Protocol):
    """Answers requests in its `languages` (LSP's names, or `ANY`). Used on the engine thread only.

    A completer keeps the documents. What an answerer remembers of one is in its `DocumentState`.
    """

    @property
    def languages(self) -> Collection[str]:
        """The languages that it answers in; on any thread."""
        ...

    def complete(self, document: DocumentState, asked: Asked, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, soon return it as superseded."""
        ...

    def prepare(self, document: DocumentState, place: Upcoming, cancel: Cancel) -> bool:
        """Compute what a completion will need until `cancel()` is true; return whether nothing is left to do."""
        ...

    def explain(self, document: DocumentState, request: Request, answered: Answer | None) -> dict[str, object]:
        """Return the prompt of a request, and the last answer there, `answered`, as plain values; changes nothing."""
        ...
