"""Follows what was accepted through later edits: how much of it does the user keep?"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass

from efim_ls.text.document import Change, Document, Encoding
from efim_ls.usage.counters import Count, Counters
from efim_ls.usage.offers import Offer, Offers, Suggestion
from efim_ls.usage.retention import Edit, Kept, narrowed

JUDGED_AFTER = 30.0  # seconds after an acceptance


@dataclass(frozen=True)
class Acceptance:
    """A suggestion went into its document, from its character `start` to its character `end`."""

    suggestion: Suggestion
    start: int
    end: int

    def place(self, text: str, last: Edit | None) -> int | None:
        """Where the suggestion begins in a text in which it stands: at its place, or before what was edited last."""
        ends_there = [last.end - self.end] if last else []
        for place in (self.suggestion.place, *ends_there):
            if place >= 0 and text.startswith(self.suggestion.text[: self.end], place):
                return place
        return None


@dataclass(eq=False)
class Followed:
    """Accepted text that is not judged yet."""

    language: str
    accepted: int
    kept: Kept
    timer: asyncio.TimerHandle


class Fates:
    """What becomes of suggestions. Used on the event loop only, but for `close`."""

    def __init__(self, counters: Counters, judged_after: float = JUDGED_AFTER) -> None:
        """Count what was kept of a text so many seconds after it was accepted."""
        self.offers = Offers(counters)
        self._counters, self._judged_after = counters, judged_after
        self._last: dict[str, Edit] = {}
        self._awaited: dict[str, Acceptance] = {}
        self._followed: defaultdict[str, list[Followed]] = defaultdict(list)

    def accepted(self, offer: Offer, document: Document | None, units: int | None, encoding: Encoding) -> None:
        """Count an acceptance, of the first `units` or of all, and follow what was accepted for the first time by it.

        Some clients tell before they insert: then the text is looked for after later edits.
        """
        self.offers.tell(offer, "accepted" if units is None else "partially_accepted")
        suggestion, end = offer.suggestion, offer.end(units, encoding)
        start = max(offer.start, suggestion.taken)
        if document is not None and start < end:
            suggestion.taken = end
            self._awaited[document.uri] = Acceptance(suggestion, start, end)
            self._look(document)

    def apply(self, document: Document, change: Change, encoding: Encoding) -> None:
        """Make a change of a document, and follow it."""
        edit = edit_of(document, change, encoding)
        document.apply([change], encoding)
        for followed in self._followed.get(document.uri, ()):
            followed.kept.apply(edit)
        self._last[document.uri] = edit
        self._look(document)

    def closed(self, uri: str) -> None:
        """Judge what was accepted in a document that is closed."""
        self.offers.close(uri)
        self._last.pop(uri, None)
        self._awaited.pop(uri, None)
        for followed in self._followed.pop(uri, []):
            followed.timer.cancel()
            self._count(followed)

    def close(self) -> None:
        """Judge all; for when the event loop has ended."""
        for uri in list(self._followed):
            self.closed(uri)

    def _look(self, document: Document) -> None:
        """Follow an acceptance once its text stands in the document."""
        uri, last = document.uri, self._last.get(document.uri)
        awaited = self._awaited.get(uri)
        if awaited is None or (place := awaited.place(document.text, last)) is None:
            return
        del self._awaited[uri]
        start, end = place + awaited.start, place + awaited.end
        if last is not None and last.added and last.end == end:  # what stands before that was typed
            start = max(start, last.at)
        timer = asyncio.get_running_loop().call_later(self._judged_after, self._judge, uri)
        followed = Followed(awaited.suggestion.fate.language, end - start, Kept(start, end), timer)
        self._followed[uri].append(followed)

    def _judge(self, uri: str) -> None:
        """Count the acceptance in a document that is the longest ago."""
        self._count(self._followed[uri].pop(0))
        if not self._followed[uri]:
            del self._followed[uri]

    def _count(self, followed: Followed) -> None:
        kept: dict[Count, int] = {
            "characters_accepted": followed.accepted,
            "characters_kept": followed.kept.characters,
        }
        self._counters.add(followed.language, kept)


def edit_of(document: Document, change: Change, encoding: Encoding) -> Edit:
    """What a change will do to a document."""
    start, end = document.span(change, encoding)
    return narrowed(start, document.text[start:end], change.text)
