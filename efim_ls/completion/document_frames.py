"""One document on the engine thread: its planner, the frames asked for, its suggestions and its saved plans."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from efim_ls.completion.planner import Frame, Plan, Planner
from efim_ls.request import Request

MOST_SUGGESTIONS = 16  # suggestions a document
NEARBY = 500  # characters on either side by which a place is known again; with both lengths, not to be mistaken


@dataclass(frozen=True)
class PastSuggestion:
    r"""A suggestion and the place where it was made: sizes of the text around the cursor and the nearest of it.

    Lines of `text` end in \n, whatever ends those of the document. `others` is the hash of the other open texts.
    """

    start: int
    before: str
    remaining: int
    after: str
    text: str
    others: int

    def left(self, text: str, cursor: int, others: int) -> str:
        """What is left of it where its beginning stands before the cursor and nothing else has changed."""
        same = (
            others == self.others
            and len(text) - cursor == self.remaining
            and 0 <= cursor - self.start <= 2 * len(self.text)
            and text.startswith(self.after, cursor)
            and text.startswith(self.before, self.start - len(self.before))
        )
        typed = text[self.start : cursor].replace("\r\n", "\n").replace("\r", "\n") if same else ""
        return self.text[len(typed) :] if same and self.text.startswith(typed) else ""


class RecentSuggestions:
    """The last suggestions of one document. Used on the engine thread only."""

    def __init__(self) -> None:
        """Nothing was suggested yet."""
        self._suggestions: deque[PastSuggestion] = deque(maxlen=MOST_SUGGESTIONS)

    def add(self, text: str, cursor: int, suggested: str, others: tuple[str, ...] = ()) -> None:
        """Remember what was suggested at a place, once however often what is left of it is suggested again."""
        before, after, beside = text[max(0, cursor - NEARBY) : cursor], text[cursor : cursor + NEARBY], hash(others)
        made = PastSuggestion(cursor, before, len(text) - cursor, after, suggested, beside)
        known = next((each for each in self._suggestions if each.left(text, cursor, beside) == suggested), None)
        if known is not None:
            self._suggestions.remove(known)
        self._suggestions.append(known or made)

    def left(self, text: str, cursor: int, others: tuple[str, ...] = ()) -> str:
        """What is left of the latest suggestion whose beginning stands before the cursor, nothing if none is."""
        found = (made.left(text, cursor, hash(others)) for made in reversed(self._suggestions))
        return next((left for left in found if left), "")


class DocumentFrames:
    """All that the engine thread knows of one document.

    A plan made ahead of need contains suggestions that may never be accepted. So the frames of plans that were asked
    for are remembered beside the planner, as they were then: they are the user's text. `saved` are the plans as they
    were saved last; they alone stay once a closed document is saved. `withdrawn` tells that what the disk held of it
    was removed, since it may not be there.
    """

    def __init__(self, make: Callable[[], Planner], saved: Sequence[Plan] = ()) -> None:
        """Make a planner when it is needed, with the frames that were saved."""
        self.suggestions = RecentSuggestions()
        self.saved, self.closed, self.withdrawn = list(saved), False, False
        self._make = make
        self._planner: Planner | None = None
        self._asked: dict[int, Frame] = {}

    @property
    def planner(self) -> Planner:
        """The document's planner."""
        if self._planner is None:
            self._planner = self._make()
            self._planner.recall(self.saved)
            self._asked = {frame.plan.number: frame for frame in self._planner.frames}
        return self._planner

    @property
    def unsaved(self) -> bool:
        """Whether it may have frames that are not saved."""
        return self._planner is not None

    def plan(self, request: Request) -> Frame:
        """Return the frame that a request asks for."""
        frame = self.planner.plan(request.text, request.cursor)
        self._asked[frame.plan.number] = frame
        return frame

    def asked(self) -> list[Frame]:
        """Return the frames that the planner still remembers, as they were asked for last."""
        numbers = [frame.plan.number for frame in self._planner.frames] if self._planner else []
        self._asked = {number: self._asked[number] for number in numbers if number in self._asked}
        return list(self._asked.values())

    def close(self) -> None:
        """Forget the suggestions; the frames stay until they are saved."""
        self.closed, self.suggestions = True, RecentSuggestions()

    def forget_frames(self) -> None:
        """Forget all but the saved plans."""
        self._planner, self._asked = None, {}
