"""One document on the engine thread: its planner, the frames asked for, its suggestions and its saved plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from efim_ls.completion.planner import Frame, Plan, Planner
from efim_ls.completion.recent_suggestions import RecentSuggestions
from efim_ls.request import Request


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
