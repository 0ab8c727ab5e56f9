"""One document's state on the engine thread: its planner, requested frames, suggestions and saved plans.

And what answers the requests of some languages with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol
from weakref import ref

from efim_ls.completion.planning.planner import Frame, Plan, Planner
from efim_ls.completion.suggestions.explanation import AnswerOrigin
from efim_ls.completion.suggestions.recent import Asked, RecentSuggestions
from efim_ls.request import Answer, Request, Upcoming
from model_runtime.cancel import Cancel
from model_runtime.counts.snapshot import CountsView
from model_runtime.prompt.context import NO_CONTEXT, PromptContext


class DocumentState:
    """The engine thread's state of one document.

    A prefetched plan contains a suggestion that may never be accepted. Therefore only the frames of requests, which
    hold the user's own text, are kept for saving. `saved` are the plans as last saved; only they stay once a closed
    document is saved.
    """

    def __init__(self, make: Callable[[], Planner], saved: Sequence[Plan] = ()) -> None:
        """Start with saved plans; `make` creates the planner when it is first needed."""
        self.suggestions = RecentSuggestions()
        self.saved, self.closed = list(saved), False
        self.language: str | None = None  # that was asked about last
        self._make = make
        self._counts: CountsView | None = None
        self.answer_origin: AnswerOrigin | None = None  # what the last answer was made from
        self._context: PromptContext = NO_CONTEXT  # that was offered last
        self._planned_in = ""  # the language of the last plan
        self._planner: Planner | None = None
        self._requested: dict[int, Frame] = {}
        # The place that was prepared last, whose request holds other texts and counts, and its frames once planned.
        self._preparing: ref[Upcoming] | None = None
        self._frames_ahead: Sequence[Frame] | None = None
        self._whole: Frame | None = None  # of these, in place of a short one

    @property
    def planner(self) -> Planner:
        """The document's planner."""
        if self._planner is None:
            self._planner = self._make()
            self._planner.offer(self._context, language=self._planned_in)
            self._planner.restore(self.saved)
            self._requested = {frame.plan.number: frame for frame in self._planner.frames}
        return self._planner

    @property
    def unsaved(self) -> bool:
        """Whether there may be unsaved frames."""
        return self._planner is not None

    def ask(self, request: Request) -> Asked:
        """Return a request as it is answered: with the view of the repository that is in effect from it on.

        Counts are updated between suggestions, never while one is being typed. A request without counts has none.
        """
        asked = self.suggestions.ask(request)
        if request.counts is not None and request.counts != self._counts:
            before = asked.counting(self._counts)
            asked = before if before.is_typed_through else asked
        self._counts = asked.request.counts
        return asked

    def release_counts(self) -> None:
        """Drop the counts of a document that is no longer edited, to free memory.

        Its last answer can no longer be explained.
        """
        self._counts = self.answer_origin = None

    def forget_suggestions(self) -> None:
        """Forget the last suggestions and their origin."""
        self.suggestions, self._counts, self.answer_origin = RecentSuggestions(), None, None

    def forget_context(self) -> None:
        """Take other files' text out of all frames."""
        if self._planner is not None:
            shown = frozenset(each.file for frame in self._frames for each in frame.plan.context.all)
            self.offer(NO_CONTEXT, shown, self._planned_in)

    def offer(self, context: PromptContext, excluded_files: frozenset[str], language: str) -> Planner:
        """Return the planner, now of a language; new frames show this context, and none text of `excluded_files`."""
        self._context, self._planned_in = context, language
        self.planner.offer(context, excluded_files, language)
        if excluded_files:
            shown = {number: frame.plan.context for number, frame in self._requested.items()}
            self._requested = {
                n: self._requested[n] for n, each in shown.items() if each.without(excluded_files) is each
            }
        return self.planner

    def plan(self, request: Request, cancel: Cancel) -> Frame:
        """Return the frame for a request; raises Cancelled soon after `cancel()` is true."""
        planner = self.offer(request.context, request.excluded_files, request.language)
        frame = planner.plan(request.text, request.cursor, cancel)
        self._requested[frame.plan.number] = frame
        return frame

    def plan_ahead(self, place: Upcoming, cancel: Cancel) -> Sequence[Frame]:
        """Return the frames that a completion at a place will need, its own and one for the next line.

        They are planned once: the document may change while they are computed. Raises Cancelled.
        """
        if not self.is_preparing(place):
            self._preparing, self._frames_ahead = ref(place), None
        if self._frames_ahead is None:
            self._frames_ahead = self._planned_ahead(place, cancel)
        return self._frames_ahead

    def end_preparing(self) -> None:
        """Note that all frames of the place are computed: from now on its whole window is used."""
        if self._whole is not None:
            self.planner.prefer(self._whole)
            self._whole = None

    def is_preparing(self, place: Upcoming) -> bool:
        """Return whether this place was prepared last, in part or in full."""
        return self._preparing is not None and self._preparing() is place

    def _planned_ahead(self, place: Upcoming, cancel: Cancel) -> Sequence[Frame]:
        request, self._whole = place.request, None
        planner = self.offer(request.context, request.excluded_files, request.language)
        if place.because == "opened":
            frames = [planner.plan_unopened(request.text, cancel)]
        else:
            plan = planner.plan_at_rest if place.because == "rested" else planner.plan
            at = request.text, request.cursor, cancel
            frames = [plan(*at), planner.plan_next(*at), planner.plan_whole(*at)]
            self._whole = frames[-1]
        return [frame for frame in frames if frame is not None]

    def requested_frames(self) -> list[Frame]:
        """Return the requested frames that the planner still remembers."""
        numbers = [frame.plan.number for frame in self._frames]
        self._requested = {number: self._requested[number] for number in numbers if number in self._requested}
        return list(self._requested.values())

    @property
    def _frames(self) -> Sequence[Frame]:
        return self._planner.frames if self._planner else ()

    def close(self) -> None:
        """Forget the suggestions; the frames stay until they are saved."""
        self.closed = True
        self.forget_suggestions()

    def forget_frames(self) -> None:
        """Forget all but the saved plans."""
        self._planner, self._requested, self._preparing, self._frames_ahead = None, {}, None, None
        self._whole = None


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
