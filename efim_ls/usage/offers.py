"""What was suggested, under the ids by which a client tells what became of it."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from efim_ls.request import Request
from efim_ls.text.document import Encoding
from efim_ls.text.lines import line_end_in
from efim_ls.usage.counters import Count, Counters

Event = Literal["shown", "accepted", "partially_accepted"]
TAKEN: tuple[Event, ...] = ("accepted", "partially_accepted")
REMEMBERED = 1000  # offers whose fate may still be told
RECENT = 16  # suggestions of a document of which a later one may be what is left
CODECS: dict[Encoding, str] = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
BYTES: dict[Encoding, int] = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


@dataclass(eq=False)
class Fate:
    """What became of what was suggested at one place: of all alternatives, and of what was left of them later."""

    language: str
    events: set[Event] = field(default_factory=set[Event])


@dataclass(eq=False)
class Suggestion:
    """A text with the document's line ends, and the place where it begins; `taken` characters of it were accepted."""

    uri: str
    place: int
    text: str
    fate: Fate
    taken: int = 0

    def left(self, text: str, cursor: int) -> str:
        """What is left of it where its beginning stands before the cursor."""
        typed = cursor - self.place
        stands = 0 <= typed <= len(self.text) and text.startswith(self.text[:typed], self.place)
        return self.text[typed:] if stands else ""


@dataclass(frozen=True)
class Offer:
    """A suggestion from its character `start` on, and the same as it was sent."""

    suggestion: Suggestion
    start: int
    sent: str
    line_end: str

    def end(self, units: int | None, encoding: Encoding) -> int:
        """Where in the suggestion its first `units` of what was sent end; all of it where that is None."""
        first = self.sent if units is None else _first(self.sent, units, encoding)
        return self.start + len(first.replace("\n", self.line_end))


class Offers:
    """The last offers, and what was told of them. Used on the event loop only."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._offers: dict[str, Offer] = {}
        self._recent: defaultdict[str, deque[Suggestion]] = defaultdict(partial(deque[Suggestion], maxlen=RECENT))
        self._numbers = itertools.count(1)
        self._client_tells = False

    def offer(self, request: Request, language: str, texts: Sequence[str]) -> list[str]:
        """Return the ids by which a client will tell what became of the suggestions that answer a request."""
        line_end = line_end_in(request.text)
        inserted = [text.replace("\n", line_end) for text in texts]
        earlier = [self._earlier(request, text) for text in inserted]
        fate = next((each.fate for each in earlier if each), None) or self._new_fate(language)
        made = [each or self._new(request, text, fate) for each, text in zip(earlier, inserted, strict=True)]
        return [
            self._remember(Offer(suggestion, request.cursor - suggestion.place, text, line_end))
            for suggestion, text in zip(made, texts, strict=True)
        ]

    def find(self, number: str) -> Offer | None:
        """The offer of an id, none where it is unknown or forgotten."""
        return self._offers.get(number)

    def tell(self, offer: Offer, event: Event) -> None:
        """Count what became of a suggestion, once."""
        fate = offer.suggestion.fate
        self._client_tells |= event == "shown"
        if event in TAKEN and fate.events.isdisjoint(TAKEN):
            self._counters.add(fate.language, {"taken": 1})
        for each in (event, "shown"):  # what was accepted was seen
            self._count(fate, each)
        if event == "accepted" and (recent := self._recent.get(offer.suggestion.uri)):
            alive = [each for each in recent if each.fate is not fate]
            recent.clear()
            recent.extend(alive)

    def close(self, uri: str) -> None:
        """Take what will be suggested in this document for new."""
        self._recent.pop(uri, None)

    def _earlier(self, request: Request, inserted: str) -> Suggestion | None:
        recent = reversed(self._recent.get(request.uri, ()))
        return next((each for each in recent if each.left(request.text, request.cursor) == inserted), None)

    def _new_fate(self, language: str) -> Fate:
        fate = Fate(language)
        self._counters.add(language, {"offered": 1})
        if not self._client_tells:
            self._count(fate, "shown")
        return fate

    def _new(self, request: Request, inserted: str, fate: Fate) -> Suggestion:
        suggestion = Suggestion(request.uri, request.cursor, inserted, fate)
        self._recent[request.uri].append(suggestion)
        return suggestion

    def _remember(self, offer: Offer) -> str:
        number = str(next(self._numbers))
        self._offers[number] = offer
        if len(self._offers) > REMEMBERED:
            del self._offers[next(iter(self._offers))]
        return number

    def _count(self, fate: Fate, event: Event) -> None:
        if event not in fate.events:
            fate.events.add(event)
            counts: dict[Count, int] = {event: 1}
            self._counters.add(fate.language, counts)


def _first(text: str, units: int, encoding: Encoding) -> str:
    """The whole characters within so many units of an encoding."""
    encoded = text.encode(CODECS[encoding], "surrogatepass")[: max(0, units) * BYTES[encoding]]
    return encoded.decode(CODECS[encoding], "ignore")
