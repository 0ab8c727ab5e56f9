"""Turns a place in a text into head, tail and typed, so that typing changes as few prompt tokens as can be.

Pure: it knows texts and functions that count tokens and make prompts, no model. The rules' reasons are in
ARCHITECTURE.md, their figures in docs/benchmarks.md.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from efim_ls.completion.window import MOST_CHARACTERS, Budget, Pieces, Window
from efim_ls.request import FrameKind
from efim_ls.text.lines import enclosing_line, line_start, lines_upwards
from model_runtime.ids import Ids, common_prefix
from model_runtime.prompt.prompt import Prompt

ANCHOR_STEP = 64  # characters between possible anchors in a line that is too long to be typed
LEAD = 3  # lines above the cursor's that belong to typed: a small model continues best from what it has just read
REMEMBERED_LINES = 200  # typed may span this many lines
FRAMES = 8  # a file: undo, jumps back and forth, and places edited in turn find theirs again
UNBEATABLE = 1  # recomputed tokens: a frame that costs no more is taken without a look at the others
CHEAP = 64  # recomputed tokens: where a frame that fits costs no more, no new one is made


@dataclass(frozen=True)
class Plan:
    """`head + typed + rest`, the line's end and tail are a window of the text around the cursor, exactly.

    `rest` is the text between cursor and line end; it stays out of the prompt (R4). `start` is where the head
    begins, in code points. `number` names the frame among the document's, for as long as it is remembered.
    """

    frame: FrameKind
    number: int
    start: int
    head: str
    typed: str
    rest: str
    tail: str


PromptOf = Callable[[Plan], Prompt]


@dataclass(frozen=True)
class Frame:
    """A plan and its prompt, without surroundings."""

    plan: Plan
    prompt: Prompt

    @property
    def ids(self) -> Ids:
        """The token ids of the prompt, as far as an arena may hold them."""
        return self.prompt.ids


class Planner:
    """Plans for one document and remembers its frames, the last used at the end. Used on the engine thread only.

    What a plan costs is judged by what the remembered frames' prompts have in common with it, not by what arenas
    hold: the same calls make the same plans, whatever was evicted or interrupted.
    """

    def __init__(self, budget: Budget, pieces: Pieces, prompt_of: PromptOf) -> None:
        """`pieces` cuts a text into the fragments that are tokenized apart, each with its number of tokens."""
        self._budget, self._window, self._prompt_of = budget, Window(budget, pieces), prompt_of
        self._frames: list[Frame] = []
        self._made = 0

    def plan(self, text: str, cursor: int) -> Frame:
        """Return the frame with the fewest recomputed tokens (R10): one that fits or, if all cost much, a new one."""
        return self._remember(self._cheapest(self._fitting(text, cursor), self._new(text, cursor)))

    def opening(self, text: str) -> Frame:
        """Return the frame to have ready in a text whose cursor is not known: the last one's, where work ended.

        If there is none, one whose head serves all that fits the head: a prompt for any place within that shares the
        head up to there.
        """
        if self._frames:
            last = self._frames[-1].plan
            return self.plan(text, min(len(text), last.start + len(last.head) + len(last.typed)))
        return self.plan(text, len(self._window.beginning(text, 0, self._budget.head)))

    def renewed(self, text: str, cursor: int) -> Frame | None:
        """Return a frame to have ready if typed has nearly outgrown the last one, else None."""
        if not self._frames or self._window.fits(self._frames[-1].plan.typed, self._budget.typed * 3 // 4):
            return None
        last = self._frames[-1]
        others = (plan for plan in self._fitting(text, cursor) if plan.number != last.plan.number)
        frame = self._remember(self._cheapest(others, self._new(text, cursor)))
        # By number: comparing frames would compare their tokens.
        place = next(i for i, each in enumerate(self._frames) if each.plan.number == last.plan.number)
        self._frames.append(self._frames.pop(place))  # it serves until it is outgrown
        return frame

    @property
    def frames(self) -> tuple[Frame, ...]:
        """What is remembered, the last used at the end."""
        return tuple(self._frames)

    def recall(self, plans: Iterable[Plan]) -> None:
        """Take over the frames of an earlier planner of the document, the last used at the end."""
        for plan in plans:
            self._remember(Frame(replace(plan, number=self._made), self._prompt_of(plan)))

    def copy(self) -> Planner:
        """Return a planner with the same frames, to try out what this one would plan."""
        other = copy.copy(self)
        other._frames = list(self._frames)
        return other

    def _cheapest(self, fitting: Iterator[Plan], new: Iterator[Plan]) -> Frame:
        kept = self._least(fitting)
        if kept is not None and kept[0] <= CHEAP:
            return kept[1]
        made = self._least(new)
        assert made is not None
        return made[1] if kept is None or made[0] < kept[0] else kept[1]

    def _least(self, plans: Iterator[Plan]) -> tuple[int, Frame] | None:
        """Return the frame with the fewest recomputed tokens, and how many; the first of equals."""
        best = None
        for frame in (Frame(plan, self._prompt_of(plan)) for plan in plans):
            cost = self._cost(frame)
            if best is None or cost < best[0]:
                best = cost, frame
            if cost <= UNBEATABLE:
                break
        return best

    def _cost(self, frame: Frame) -> int:
        least = len(frame.ids)
        for each in reversed(self._frames):
            least = min(least, len(frame.ids) - common_prefix(each.ids, frame.ids))
            if least <= UNBEATABLE:
                break
        return least

    def _remember(self, frame: Frame) -> Frame:
        self._frames = [each for each in self._frames if each.plan.number != frame.plan.number]
        self._frames = [*self._frames, frame][-FRAMES:]
        self._made = max(self._made, frame.plan.number + 1)
        return frame

    def _fitting(self, text: str, cursor: int) -> Iterator[Plan]:
        """Yield the plans of frames that fit the text as it is now, the last used first."""
        _, line_end, below = enclosing_line(text, cursor)
        for frame in reversed(self._frames):
            last = frame.plan
            anchor = self._kept_anchor(text, cursor, below, last)
            if anchor is not None:
                kind = "kept" if frame is self._frames[-1] else "restored"
                start, typed, rest = anchor - len(last.head), text[anchor:cursor], text[cursor:line_end]
                yield replace(last, frame=kind, start=start, typed=typed, rest=rest)

    def _new(self, text: str, cursor: int) -> Iterator[Plan]:
        """Yield plans of new frames at the cursor: one for each remembered frame's window that serves here, too."""
        _, line_end, below = enclosing_line(text, cursor)
        anchor, tail = new_anchor(self._window, self._budget, text, cursor), self._window.tail(text, below)
        windows = [(frame.plan.start, frame.plan.head) for frame in reversed(self._frames)] or [None]
        for start in dict.fromkeys(self._window.start(text, anchor, last) for last in windows):
            head, typed, rest = text[start:anchor], text[anchor:cursor], text[cursor:line_end]
            yield Plan("new", self._made, start, head, typed, rest, tail)

    def _kept_anchor(self, text: str, cursor: int, below: int, last: Plan) -> int | None:
        """Return where a frame's anchor is now, or None if the frame does not fit.

        It is looked for in the text itself: edits are not tracked, so none can be missed.
        """
        if not text.startswith(last.tail, below) or not self._reaches(text, last, below):
            return None
        size = len(last.head)
        if not size and last.start:
            return None  # no text tells where such a frame is now
        for anchor in (last.start + size, *islice(lines_upwards(text, cursor), REMEMBERED_LINES)):
            if size <= anchor <= cursor and text.startswith(last.head, anchor - size):
                return anchor if self._window.fits(text[anchor:cursor], self._budget.typed) else None
        return None

    def _reaches(self, text: str, last: Plan, below: int) -> bool:
        """Return whether a tail that fits is still long enough; moving up through typed lines leaves it short."""
        if below + len(last.tail) == len(text) or self._window.count(last.tail) * 2 >= self._budget.tail:
            return True
        return last.tail == self._window.tail(text, below)


def new_anchor(window: Window, budget: Budget, text: str, cursor: int) -> int:
    """Return the start of a line up to LEAD lines above the cursor's (R1), in code points.

    In a line that is too long to be typed, return a fixed place inside it.
    """
    start, room = line_start(text, cursor), budget.typed
    if window.fits(text[start:cursor], room):
        above = islice(lines_upwards(text, cursor), 1 + LEAD)
        return min((at for at in above if window.fits(text[at:cursor], room // 2)), default=start)
    near = range(start, cursor, ANCHOR_STEP)[-room * MOST_CHARACTERS // ANCHOR_STEP :]
    return next((at for at in near if window.fits(text[at:cursor], room // 2)), near[-1])
