"""One document's state on the engine thread: its planner, requested frames, suggestions and saved plans."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from efim_ls.completion.planner import Frame, Plan, Planner
from efim_ls.request import Request, ShouldStop

MOST_SUGGESTIONS = 16  # per document
NEARBY = 500  # characters on each side that, with both lengths, identify a place


@dataclass(frozen=True)
class PastSuggestion:
    r"""A suggestion and its place: the lengths of the text before and after the cursor, and the nearest of it.

    Lines of `text` end in \n, whatever ends those of the document. `others` is the hash of the other open texts.
    """

    start: int
    before: str
    remaining: int
    after: str
    text: str
    others: int

    def left(self, text: str, cursor: int, others: int) -> str:
        """Return the remainder if its beginning stands before the cursor and nothing else has changed, else ''."""
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
        """Start without suggestions."""
        self._suggestions: deque[PastSuggestion] = deque(maxlen=MOST_SUGGESTIONS)

    def add(self, text: str, cursor: int, suggested: str, others: tuple[str, ...] = ()) -> None:
        """Remember a suggestion; offering its remainder again does not add another."""
        before, after, beside = text[max(0, cursor - NEARBY) : cursor], text[cursor : cursor + NEARBY], hash(others)
        made = PastSuggestion(cursor, before, len(text) - cursor, after, suggested, beside)
        known = next((each for each in self._suggestions if each.left(text, cursor, beside) == suggested), None)
        if known is not None:
            self._suggestions.remove(known)
        self._suggestions.append(known or made)

    def left(self, text: str, cursor: int, others: tuple[str, ...] = ()) -> str:
        """Return the remainder of the latest suggestion whose beginning stands before the cursor, '' if none does."""
        found = (made.left(text, cursor, hash(others)) for made in reversed(self._suggestions))
        return next((left for left in found if left), "")


class DocumentFrames:
    """The engine thread's state of one document.

    A prefetched plan contains a suggestion that may never be accepted. Therefore only the frames of requests, which
    hold the user's own text, are kept for saving. `saved` are the plans as last saved; only they stay once a closed
    document is saved. `withdrawn`: the document was removed from disk because it may not be there.
    """

    def __init__(self, make: Callable[[], Planner], saved: Sequence[Plan] = ()) -> None:
        """Start with saved plans; `make` creates the planner when it is first needed."""
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
        """Whether there may be unsaved frames."""
        return self._planner is not None

    def plan(self, request: Request, stopped: ShouldStop) -> Frame:
        """Return the frame for a request; raises PlanStopped soon after `stopped()` is true."""
        frame = self.planner.plan(request.text, request.cursor, stopped)
        self._asked[frame.plan.number] = frame
        return frame

    def asked(self) -> list[Frame]:
        """Return the requested frames that the planner still remembers."""
        numbers = [frame.plan.number for frame in self._planner.frames] if self._planner else []
        self._asked = {number: self._asked[number] for number in numbers if number in self._asked}
        return list(self._asked.values())

    def close(self) -> None:
        """Forget the suggestions; the frames stay until they are saved."""
        self.closed, self.suggestions = True, RecentSuggestions()

    def forget_frames(self) -> None:
        """Forget all but the saved plans."""
        self._planner, self._asked = None, {}
