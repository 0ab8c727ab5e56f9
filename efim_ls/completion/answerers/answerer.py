"""What answers the requests of some languages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from efim_ls.completion.document_state import DocumentState
from efim_ls.completion.suggestions.recent import Asked
from efim_ls.request import Answer, Request
from model_runtime.cancel import Cancel

Preparation = Callable[[Cancel], bool]  # works until told to stop; returns whether it is done


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

    def prefetch(self, document: DocumentState, request: Request, rested: bool) -> Preparation:
        """Return work that prefetches what a completion for this request will need.

        Where the cursor has `rested` and no suggestion is shown, the prompt takes up the excerpts that are offered.
        """
        ...

    def prefetch_opened(self, document: DocumentState, opened: Request) -> Preparation:
        """Return work that prefetches what a first completion will need, wherever in the `opened` text it is."""
        ...

    def explain(self, document: DocumentState, request: Request, answered: Answer | None) -> dict[str, object]:
        """Return what answers a request, and what was `answered` there last, as plain values; changes nothing."""
        ...


def begun_later(begin: Callable[[], Preparation]) -> Preparation:
    """Return work that `begin` returns when it is first called, on the engine thread."""
    begun: list[Preparation] = []

    def prepare(cancel: Cancel) -> bool:
        begun[:] = begun or [begin()]
        return begun[0](cancel)

    return prepare


def nothing_to_prepare(_: Cancel) -> bool:
    """Do nothing, which is done at once."""
    return True
