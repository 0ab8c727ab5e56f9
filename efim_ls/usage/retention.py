"""Follows accepted text through later edits: how many of its characters does the user retain?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from efim_ls.text.edit import Edit
from efim_ls.usage.counters import Count, Counters

COUNTED_AFTER = 30.0  # seconds after an acceptance
RECENT = 16  # suggestions of a document of which a later one may be what is left

Event = Literal["shown", "accepted", "partially_accepted"]
Piece = tuple[int, int]


@dataclass(eq=False)
class Outcome:
    """What happened to the suggestions at one place: to all alternatives, and to what was left of them later."""

    language: str
    events: set[Event] = field(default_factory=set[Event])


@dataclass(eq=False)
class Suggestion:
    """A text with the document's line ends and the place where it begins; `taken` characters of it were accepted."""

    place: int
    text: str
    outcome: Outcome
    taken: int = 0

    def left(self, text: str, cursor: int) -> str:
        """Return what is left of it where its beginning stands before the cursor, else nothing."""
        typed = cursor - self.place
        stands = 0 <= typed <= len(self.text) and text.startswith(self.text[:typed], self.place)
        return self.text[typed:] if stands else ""


@dataclass(frozen=True)
class Acceptance:
    """The characters of a suggestion from `start` to `end`, which the user accepted."""

    suggestion: Suggestion
    start: int
    end: int

    def find(self, text: str, last: Edit | None) -> int | None:
        """Return where the suggestion begins in a text that has it: at its place, or before the last edit's end."""
        ends_there = [last.end - self.end] if last else []
        for place in (self.suggestion.place, *ends_there):
            if place >= 0 and text.startswith(self.suggestion.text[: self.end], place):
                return place
        return None


class RetainedRange:
    """The characters of a range that no edit has removed, wherever edits have moved them."""

    def __init__(self, start: int, end: int) -> None:
        self._pieces: list[Piece] = [(start, end)]

    @property
    def characters(self) -> int:
        """Number of characters that are left."""
        return sum(end - start for start, end in self._pieces)

    def follow(self, edit: Edit) -> None:
        """Follow an edit of the document."""
        self._pieces = [left for piece in self._pieces for left in _after(piece, edit)]


@dataclass(eq=False)
class _Accepted:
    language: str
    characters: int
    retained: RetainedRange
    timer: asyncio.TimerHandle


class RetentionTracker:
    """The suggestions of one document, offered and accepted. Used on the event loop only, but for `close`.

    `recent` are those that were offered lately, the last at the end.
    """

    def __init__(self, counters: Counters, text: str, counted_after: float = COUNTED_AFTER) -> None:
        """Begin with the document's text; count what is retained `counted_after` seconds after an acceptance."""
        self.recent: deque[Suggestion] = deque(maxlen=RECENT)
        self._counters, self._text, self._counted_after = counters, text, counted_after
        self._last: Edit | None = None
        self._awaited: Acceptance | None = None
        self._accepted: list[_Accepted] = []
        self._closed = False

    def accept(self, suggestion: Suggestion, start: int, end: int) -> None:
        """Follow what is accepted for the first time of a suggestion's characters from `start` to `end`.

        Some clients tell before they insert: then the text is looked for after later edits.
        """
        start = max(start, suggestion.taken)
        if start < end and not self._closed:
            suggestion.taken = end
            self._awaited = Acceptance(suggestion, start, end)
            self._look()

    def follow(self, edit: Edit, text: str) -> None:
        """Follow an edit of the document, whose text is `text` now."""
        self._text = text
        for accepted in self._accepted:
            accepted.retained.follow(edit)
        self._last = edit
        self._look()

    def reset(self, text: str) -> None:
        """Count what is retained so far and forget all suggestions: another text takes the document's place."""
        self._text = text
        self.recent.clear()
        self._last = self._awaited = None
        for accepted in self._accepted:
            accepted.timer.cancel()
            self._count(accepted)
        self._accepted.clear()

    def close(self) -> None:
        """Count what is retained so far; nothing is followed any more."""
        self.reset("")
        self._closed = True

    def _look(self) -> None:
        """Follow an acceptance once its text stands in the document."""
        awaited, last = self._awaited, self._last
        if awaited is None or (place := awaited.find(self._text, last)) is None:
            return
        self._awaited = None
        start, end = place + awaited.start, place + awaited.end
        if last is not None and last.added and last.end == end:  # what stands before that was typed
            start = max(start, last.at)
        timer = asyncio.get_running_loop().call_later(self._counted_after, self._count_first)
        language = awaited.suggestion.outcome.language
        self._accepted.append(_Accepted(language, end - start, RetainedRange(start, end), timer))

    def _count_first(self) -> None:
        self._count(self._accepted.pop(0))

    def _count(self, accepted: _Accepted) -> None:
        counts: dict[Count, int] = {
            "characters_accepted": accepted.characters,
            "characters_kept": accepted.retained.characters,
        }
        self._counters.add(accepted.language, counts)


def _after(piece: Piece, edit: Edit) -> Iterator[Piece]:
    start, end = piece
    moved, removed_to = edit.added - edit.removed, edit.at + edit.removed
    for left in ((start, min(end, edit.at)), (max(start, removed_to) + moved, end + moved)):
        if left[0] < left[1]:
            yield left
