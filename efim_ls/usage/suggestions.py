"""The life of suggestions: offered under ids, shown, accepted, and retained; and of accepted next edits."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from efim_ls.request import Request
from efim_ls.text.document import Edit, Encoding, Suggestion, begin_alike
from efim_ls.usage.counters import Count, Counters

COUNTED_AFTER = 30.0  # seconds from an acceptance to the count of retained text
RECENT_SUGGESTIONS = 16  # per document: a new offer may be the remainder of one of these
MOST_OFFERS = 1000  # offers whose outcome a client may still report
CODECS: dict[Encoding, str] = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
BYTES: dict[Encoding, int] = {"utf-8": 1, "utf-16": 2, "utf-32": 4}

Event = Literal["shown", "accepted", "partially_accepted"]
Piece = tuple[int, int]
TAKEN: tuple[Event, ...] = ("accepted", "partially_accepted")
Followers = list[Callable[[Edit], None]]  # of a document: called with each edit of it


@dataclass(eq=False)
class Outcome:
    """The events of the suggestions at one place: all alternatives, and later offers of their remainders."""

    language: str
    events: set[Event] = field(default_factory=set[Event])


@dataclass(eq=False)
class OfferedSuggestion:
    """A suggestion, of which `taken` characters were accepted."""

    suggestion: Suggestion
    outcome: Outcome
    taken: int = 0


@dataclass(frozen=True)
class Acceptance:
    """The characters of a suggestion from `start` to `end`, which the user accepted."""

    offered: OfferedSuggestion
    start: int
    end: int

    def find(self, text: str, last: Edit | None) -> int | None:
        """Return where the suggestion begins in a text, at its place or ending with the last edit, else None."""
        ends_there = [last.end - self.end] if last else []
        for place in (self.offered.suggestion.start, *ends_there):
            if place >= 0 and text.startswith(self.offered.suggestion.text[: self.end], place):
                return place
        return None


class RetainedRange:
    """The characters of a range that no edit has removed, wherever edits have moved them."""

    def __init__(self, start: int, end: int) -> None:
        self._pieces: list[Piece] = [(start, end)]

    @property
    def characters(self) -> int:
        """Number of retained characters."""
        return sum(end - start for start, end in self._pieces)

    def follow(self, edit: Edit) -> None:
        """Update the range after an edit of the document."""
        self._pieces = [left for piece in self._pieces for left in _after(piece, edit)]


@dataclass(eq=False)
class _Accepted:
    outcome: Outcome
    characters: int
    retained: RetainedRange
    timer: asyncio.TimerHandle


class RetentionTracker:
    """Tracks one document's offered and accepted suggestions. Used on the event loop only, except `close`.

    `recent` are the latest offered suggestions, newest last.
    """

    def __init__(self, counters: Counters, text: str, counted_after: float = COUNTED_AFTER) -> None:
        """Start with the document's text; count retained characters `counted_after` seconds after an acceptance."""
        self.recent: deque[OfferedSuggestion] = deque(maxlen=RECENT_SUGGESTIONS)
        self._counters, self._text, self._counted_after = counters, text, counted_after
        self._last: Edit | None = None
        self._awaited: Acceptance | None = None
        self._accepted: list[_Accepted] = []
        self._closed = False

    def accept(self, offered: OfferedSuggestion, start: int, end: int) -> None:
        """Track the characters of a suggestion from `start` to `end` that were not accepted before.

        Some clients report an acceptance before they insert the text: then later edits are searched for it.
        """
        start = max(start, offered.taken)
        if start < end and not self._closed:
            offered.taken = end
            self._awaited = Acceptance(offered, start, end)
            self._look()

    def follow(self, edit: Edit, text: str) -> None:
        """Update after an edit, which made the document's text `text`."""
        self._text = text
        for accepted in self._accepted:
            accepted.retained.follow(edit)
        self._last = edit
        self._look()

    def reset(self, text: str) -> None:
        """Count retained text so far and forget all suggestions, because another text replaces the document."""
        self._text = text
        self.recent.clear()
        self._last = self._awaited = None
        for accepted in self._accepted:
            accepted.timer.cancel()
            self._count(accepted)
        self._accepted.clear()

    def close(self) -> None:
        """Count retained text so far and stop tracking."""
        self.reset("")
        self._closed = True

    def _look(self) -> None:
        """Start tracking an acceptance once its text is in the document."""
        awaited, last = self._awaited, self._last
        if awaited is None or (place := awaited.find(self._text, last)) is None:
            return
        self._awaited = None
        start, end = place + awaited.start, place + awaited.end
        if last is not None and last.added and last.end == end:  # the text before that was typed
            start = max(start, last.at)
        timer = asyncio.get_running_loop().call_later(self._counted_after, lambda: self._count(self._accepted.pop(0)))
        outcome = awaited.offered.outcome
        self._accepted.append(_Accepted(outcome, end - start, RetainedRange(start, end), timer))

    def _count(self, accepted: _Accepted) -> None:
        outcome, characters, kept = accepted.outcome, accepted.characters, accepted.retained.characters
        counts: dict[Count, int] = {"characters_accepted": characters, "characters_kept": kept}
        self._counters.add(outcome.language, counts)


@dataclass(frozen=True)
class Offer:
    """A suggestion from its character `start` on, as it was sent: below 0 are characters that were sent before it."""

    tracker: RetentionTracker
    offered: OfferedSuggestion
    start: int
    sent: str

    def end(self, units: int | None, encoding: Encoding) -> int:
        """Return where in the suggestion the first `units` of the sent text end; None means all of it."""
        return self.start + len(self.sent if units is None else _first_units(self.sent, units, encoding))


class Offers:
    """The last offers, and what clients report of them. Used on the event loop only."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._offers: dict[str, Offer] = {}
        self._ids = itertools.count(1)
        self._client_reports_shown = False

    def offer(
        self, tracker: RetentionTracker, language: str, request: Request, texts: Sequence[str], begun: str = ""
    ) -> list[str]:
        """Return the ids by which a client will report the outcomes of the suggestions that answer a request.

        Each is sent behind a prefix, the last argument, which is text in front of the cursor.
        The rest of a suggestion is the same suggestion, and so is a longer or shorter beginning of it.
        """
        recent = tracker.recent
        left = [(each, each.suggestion.left(request.text, request.cursor)) for each in reversed(recent)]
        earlier = [next((each for each, rest in left if rest == text), None) for text in texts]
        grown = (each.outcome for text in texts for each, rest in left if begin_alike(rest, text))
        if (outcome := next(grown, None)) is None:
            outcome = self._new_outcome(language)
        made = [
            each or OfferedSuggestion(Suggestion(request.cursor, text), outcome)
            for each, text in zip(earlier, texts, strict=True)
        ]
        recent.extend(each for each, known in zip(made, earlier, strict=True) if known is None)
        return [
            self._add(Offer(tracker, offered, request.cursor - offered.suggestion.start - len(begun), begun + text))
            for offered, text in zip(made, texts, strict=True)
        ]

    def find(self, number: str) -> Offer | None:
        """Return the offer with an id, None if it is unknown or forgotten."""
        return self._offers.get(number)

    def show(self, number: str) -> None:
        """Count a suggestion as shown; unknown ids are ignored."""
        if (offer := self.find(number)) is not None:
            self._client_reports_shown = True
            self._count(offer.offered.outcome, "shown")

    def accept(self, number: str, units: int | None, encoding: Encoding) -> None:
        """Count an acceptance of a suggestion's first `units`, or of all of it, and track the accepted text.

        Unknown ids are ignored.
        """
        if (offer := self.find(number)) is None:
            return
        outcome, tracker = offer.offered.outcome, offer.tracker
        if outcome.events.isdisjoint(TAKEN):
            self._counters.add(outcome.language, {"taken": 1})
        self._count(outcome, "accepted" if units is None else "partially_accepted")
        self._count(outcome, "shown")  # an accepted suggestion was seen
        if units is None:
            alive = [each for each in tracker.recent if each.outcome is not outcome]
            tracker.recent.clear()
            tracker.recent.extend(alive)
        tracker.accept(offer.offered, offer.start, offer.end(units, encoding))

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


def _after(piece: Piece, edit: Edit) -> Iterator[Piece]:
    start, end = piece
    moved, removed_to = len(edit.added) - len(edit.removed), edit.at + len(edit.removed)
    for left in ((start, min(end, edit.at)), (max(start, removed_to) + moved, end + moved)):
        if left[0] < left[1]:
            yield left


def _first_units(text: str, units: int, encoding: Encoding) -> str:
    """Return the whole characters within the first `units` of an encoded text."""
    encoded = text.encode(CODECS[encoding], "surrogatepass")[: max(0, units) * BYTES[encoding]]
    return encoded.decode(CODECS[encoding], "ignore")


class _AcceptedEdit:
    """An accepted edit: its place, the rest of its added text, and whether it was taken back."""

    def __init__(self, uri: str, language: str, edit: Edit, followers: Followers) -> None:
        self.uri, self.language, self.edit, self.followers = uri, language, edit, followers
        self.timer: asyncio.TimerHandle | None = None
        self._at, self._retained, self._undone = edit.at, RetainedRange(edit.at, edit.end), False

    @property
    def is_kept(self) -> bool:
        return not self._undone and self._retained.characters == len(self.edit.added)

    def follow(self, later: Edit) -> None:
        if later == self.edit:  # the client reported the acceptance before it made the edit
            return
        inverse = Edit(self._at, self.edit.added, self.edit.removed)
        self._undone |= later == inverse
        self._retained.follow(later)
        if later.at + len(later.removed) <= self._at:
            self._at += len(later.added) - len(later.removed)


class AcceptedEdits:
    """Counts accepted next edits, and later those that were kept. Used on the event loop only, except `close`."""

    def __init__(self, counters: Counters, counted_after: float = COUNTED_AFTER) -> None:
        """Count kept text `counted_after` seconds after an acceptance, or when its document is closed."""
        self._counters, self._counted_after = counters, counted_after
        self._accepted: list[_AcceptedEdit] = []

    def accept(self, uri: str, language: str, edit: Edit, followers: Followers) -> None:
        """Count an accepted edit, and follow its document's later edits until it is counted as kept or not.

        The edit has no beginning or end that the old and new text share.
        """
        accepted = _AcceptedEdit(uri, language, edit, followers)
        followers.append(accepted.follow)
        self._counters.add(language, {"edits_accepted": 1})
        self._accepted.append(accepted)
        accepted.timer = asyncio.get_running_loop().call_later(self._counted_after, self._count, accepted)

    def close_document(self, uri: str) -> None:
        """Count the kept text so far in a document."""
        for accepted in [each for each in self._accepted if each.uri == uri]:
            self._count(accepted)

    def close(self) -> None:
        """Count the kept text so far."""
        for accepted in list(self._accepted):
            self._count(accepted)

    def _count(self, accepted: _AcceptedEdit) -> None:
        self._accepted.remove(accepted)
        accepted.followers.remove(accepted.follow)
        if accepted.timer is not None:
            accepted.timer.cancel()
        self._counters.add(accepted.language, {"edits_kept": int(accepted.is_kept)})
