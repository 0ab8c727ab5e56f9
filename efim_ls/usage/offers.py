"""What was suggested, under the ids by which a client reports what became of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from efim_ls.request import Request
from efim_ls.text.document import Encoding
from efim_ls.text.lines import line_end_in
from efim_ls.usage.counters import Count, Counters
from efim_ls.usage.retention import Event, Outcome, RetentionTracker, Suggestion

TAKEN: tuple[Event, ...] = ("accepted", "partially_accepted")
MOST_OFFERS = 1000  # offers whose outcome a client may still report
CODECS: dict[Encoding, str] = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
BYTES: dict[Encoding, int] = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


@dataclass(frozen=True)
class Offer:
    """A suggestion from its character `start` on, and the same as it was sent."""

    tracker: RetentionTracker
    suggestion: Suggestion
    start: int
    sent: str
    line_end: str

    def end(self, units: int | None, encoding: Encoding) -> int:
        """Return where in the suggestion the first `units` of what was sent end; None means all of it."""
        first = self.sent if units is None else _first_units(self.sent, units, encoding)
        return self.start + len(first.replace("\n", self.line_end))


class Offers:
    """The last offers, and what clients report of them. Used on the event loop only."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._offers: dict[str, Offer] = {}
        self._ids = itertools.count(1)
        self._client_reports_shown = False

    def offer(self, tracker: RetentionTracker, language: str, request: Request, texts: Sequence[str]) -> list[str]:
        """Return the ids by which a client will report what became of the suggestions that answer a request."""
        line_end, recent = line_end_in(request.text), tracker.recent
        inserted = [text.replace("\n", line_end) for text in texts]
        earlier = [
            next((each for each in reversed(recent) if each.left(request.text, request.cursor) == text), None)
            for text in inserted
        ]
        outcome = next((each.outcome for each in earlier if each), None) or self._new_outcome(language)
        made = [
            each or Suggestion(request.cursor, text, outcome) for each, text in zip(earlier, inserted, strict=True)
        ]
        recent.extend(each for each, known in zip(made, earlier, strict=True) if known is None)
        return [
            self._add(Offer(tracker, suggestion, request.cursor - suggestion.place, text, line_end))
            for suggestion, text in zip(made, texts, strict=True)
        ]

    def find(self, number: str) -> Offer | None:
        """Return the offer of an id, None if it is unknown or forgotten."""
        return self._offers.get(number)

    def show(self, number: str) -> None:
        """Count that a suggestion was seen; unknown ids are ignored."""
        if (offer := self.find(number)) is not None:
            self._client_reports_shown = True
            self._count(offer.suggestion.outcome, "shown")

    def accept(self, number: str, units: int | None, encoding: Encoding) -> None:
        """Count that the first `units` of a suggestion, or all of it, were accepted, and follow them.

        Unknown ids are ignored.
        """
        if (offer := self.find(number)) is None:
            return
        outcome, tracker = offer.suggestion.outcome, offer.tracker
        if outcome.events.isdisjoint(TAKEN):
            self._counters.add(outcome.language, {"taken": 1})
        self._count(outcome, "accepted" if units is None else "partially_accepted")
        self._count(outcome, "shown")  # what was accepted was seen
        if units is None:
            alive = [each for each in tracker.recent if each.outcome is not outcome]
            tracker.recent.clear()
            tracker.recent.extend(alive)
        tracker.accept(offer.suggestion, offer.start, offer.end(units, encoding))

    def _new_outcome(self, language: str) -> Outcome:
        outcome = Outcome(language)
        self._counters.add(language, {"offered": 1})
        if not self._client_reports_shown:
            self._count(outcome, "shown")
        return outcome

    def _add(self, offer: Offer) -> str:
        number = str(next(self._ids))
        self._offers[number] = offer
        if len(self._offers) > MOST_OFFERS:
            del self._offers[next(iter(self._offers))]
        return number

    def _count(self, outcome: Outcome, event: Event) -> None:
        if event not in outcome.events:
            outcome.events.add(event)
            counts: dict[Count, int] = {event: 1}
            self._counters.add(outcome.language, counts)


def _first_units(text: str, units: int, encoding: Encoding) -> str:
    """Return the whole characters within the first `units` of an encoded text."""
    encoded = text.encode(CODECS[encoding], "surrogatepass")[: max(0, units) * BYTES[encoding]]
    return encoded.decode(CODECS[encoding], "ignore")
