"""Turns a place in a text into head, tail and typed, so that typing changes as few prompt tokens as possible.

Pure: it knows texts and functions that count tokens and make prompts, no model. The reasons for the planning rules
(listed in ARCHITECTURE.md, measured in docs/benchmarks/):

R1   Typed begins with whole lines, because a small model continues best from the text it read last. Until the cursor
     moves above the anchor, Backspace only truncates the prompt. Text that typed outgrows moves into the head.
R2   The head stands first in the prompt, so a start that moves makes all of it be computed again: it moves rarely and
     then far, if possible to a definition. It also moves when a jump up would starve the head.
R3   Every new anchor makes the tail be computed again, so it is short. A kept tail must reach the end of the text or
     fill half its budget, or the model would see too little of what follows.
R4   Editors close brackets behind the cursor: out of the prompt, the rest of the line costs nothing when it changes.
     Before code a suggestion is one line, ends where it repeats that code, and is dropped if it never does.
R5   Undo, jumps back and forth and places edited in turn find the frames that they had.
R6   Text is cut where the tokenizer cuts anyway, so that an edit changes the tokens of one line. The stub constrains
     the first new tokens instead, so that typing on inside a word changes no prompt token.
R7   The logits after a prompt are kept with its keys and values.
R8   Suggestions are remembered with their likelihood, and their keys, values and choices stay in the arena.
R9   The next prompt is computed before it is needed. It is bounded by `prefetch_seconds_per_minute`, and nothing is
     computed where completion is off.
R10  Costs are judged by remembered prompts, not by arenas: eviction and interruption change no prompt.
R11  Text of other files that changes seldom stands in front, so that a change costs only the text behind it. What
     changes often is shown where the cursor rests: a keystroke never waits for it. A frame keeps its context while
     someone types; newly excluded text goes at once.
R12  A window of which only the nearest lines are there answers sooner. The whole one is computed when idle, so
     that nobody goes on with the short one for long.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TypeVar

from efim_ls.completion.planning.window import MOST_CHARACTERS, Budget, Pieces, Window
from efim_ls.request import FrameKind
from efim_ls.text.lines import LINE_END, enclosing_line, line_start, line_starts_after, lines_upwards
from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.sequence import resumes_at
from model_runtime.prompt.context import NO_CONTEXT, PromptContext
from model_runtime.prompt.prompt import Prompt

ANCHOR_STEP = 64  # characters between possible anchors in a line longer than typed may be
LEAD = 3  # lines above the cursor's that belong to typed: a small model continues best from the text it read last
REMEMBERED_LINES = 200  # typed may span this many lines
MARK = 64  # characters at a head's end that are searched for; places where all of it may end are few
FRAMES = 8  # per file, so that undo, jumps back and forth and places edited in turn find their frames
UNBEATABLE = 1  # recomputed tokens: a frame that costs no more is taken without comparing others
SHORTENED = 2  # a window is short at first if the whole one costs more than this many times as much
CHEAP = 64  # recomputed tokens: if a frame that fits costs no more, no new one is considered


@dataclass(frozen=True)
class Plan:
    """An exact window of the text around the cursor: `head + typed + rest`, the line's end, and `tail`.

    `rest` is the text between cursor and line end; it stays out of the prompt (R4). `start` is the head's start in
    code points. `number` identifies the frame within its document while it is remembered. The `context`, text of
    other files, stays as it was when the frame was made, or when the cursor last rested in it. `language` is LSP's
    name of the language at the cursor. A `short` window is to be replaced by a whole one (R12).
    """

    frame: FrameKind
    number: int
    start: int
    head: str
    typed: str
    rest: str
    tail: str
    context: PromptContext = NO_CONTEXT
    language: str = ""
    short: bool = False


PromptOf = Callable[[Plan], Prompt]
ResumesAt = Callable[[int], int]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Frame:
    """A plan and its prompt, without surroundings."""

    plan: Plan
    prompt: Prompt

    @property
    def ids(self) -> Ids:
        """The token ids of the prompt."""
        return self.prompt.ids


class Planner:
    """Plans for one document and remembers its frames, most recently used last. Used on the engine thread only.

    A plan's cost is estimated from the remembered frames' prompts, not from what arenas hold: the same calls always
    make the same plans, whatever was evicted or interrupted.
    """

    def __init__(
        self, budget: Budget, pieces: Pieces, prompt_of: PromptOf, resumes_at: ResumesAt = resumes_at
    ) -> None:
        """Plan with `pieces`, which cuts a text into separately tokenized fragments, each with its token count.

        `resumes_at` returns where computing can go on, at or before the length of a common prefix.
        """
        self._budget, self._window, self._prompt_of = budget, Window(budget, pieces), prompt_of
        self._short = Window(budget.short, pieces) if budget.short else None
        self._resumes_at = resumes_at
        self._frames: list[Frame] = []
        self._made = 0
        self._offered: PromptContext = NO_CONTEXT
        self._excluded_files = frozenset[str]()
        self._language = ""

    def offer(self, context: PromptContext, excluded_files: frozenset[str] = frozenset(), language: str = "") -> None:
        """Let new frames show the steady part of a context; what others show of `excluded_files` goes at once.

        All of it is shown where the cursor rests: nobody waits for it. From now on, plans are in `language`.
        """
        self._offered, self._language = context.without(excluded_files) if excluded_files else context, language
        if excluded_files != self._excluded_files:
            self._excluded_files = excluded_files
            self._frames = [self._showing(each, each.plan.context.without(excluded_files)) for each in self._frames]

    def plan(self, text: str, cursor: int, cancel: Cancel = NEVER) -> Frame:
        """Return the frame with the fewest recomputed tokens (R10): a frame that fits or, if costly, a new frame.

        Raises Cancelled soon after `cancel()` is true, as the methods below do.
        """
        frame = self._cheapest(self._fitting(text, cursor), self._new(text, cursor, cancel), cancel)
        if self._short and (cost := self._cost(frame)) > SHORTENED * self._budget.shortest:
            short = self._least(self._new(text, cursor, cancel, self._short))
            frame = short[1] if short and short[0] * SHORTENED < cost else frame
        return self._remember(frame)

    def plan_unopened(self, text: str, cancel: Cancel = NEVER) -> Frame:
        """Return a frame to prefetch for a text without a known cursor: where the last frame ended.

        Without one, return a frame whose head is as much of the text's beginning as fits: the prompt of any place in
        it shares the head up to that place.
        """
        if self._frames:
            last = self._frames[-1].plan
            return self.plan_at_rest(text, min(len(text), last.start + len(last.head) + len(last.typed)), cancel)
        cursor = len(self._window.beginning(text, 0, self._budget.head))
        return self._renewed(self._cheapest(iter(()), self._new(text, cursor, cancel), cancel))

    def plan_at_rest(self, text: str, cursor: int, cancel: Cancel = NEVER) -> Frame:
        """Return the frame to prefetch where the cursor rests, with the context that is offered now."""
        return self._renewed(self.plan(text, cursor, cancel))

    def plan_next(self, text: str, cursor: int, cancel: Cancel = NEVER) -> Frame | None:
        """Return a frame to prefetch if typed has nearly outgrown the last one, else None."""
        if not self._frames or self._window.fits(self._frames[-1].plan.typed, self._budget.typed * 3 // 4):
            return None
        return self._plan_behind(text, cursor, cancel)

    def plan_whole(self, text: str, cursor: int, cancel: Cancel = NEVER) -> Frame | None:
        """Return the frame to prefetch in place of the last one if its window is short (R12), else None."""
        is_short = bool(self._frames) and self._frames[-1].plan.short
        return self._plan_behind(text, cursor, cancel) if is_short else None

    def prefer(self, frame: Frame) -> None:
        """Let a frame that was prefetched take the place of the last one."""
        self._frames.sort(key=lambda each: each.plan.number == frame.plan.number)

    def _plan_behind(self, text: str, cursor: int, cancel: Cancel) -> Frame:
        """Return a whole frame other than the last one, which is used until it is outgrown."""
        last = self._frames[-1]
        others = (plan for plan in self._fitting(text, cursor) if plan.number != last.plan.number and not plan.short)
        frame = self._remember(self._cheapest(others, self._new(text, cursor, cancel), cancel))
        self._frames.append(self._frames.pop(self._frames.index(last)))
        return frame

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The remembered frames, most recently used last."""
        return tuple(self._frames)

    def restore(self, plans: Iterable[Plan]) -> None:
        """Adopt the frames of the document's earlier planner, most recently used last."""
        for plan in plans:
            shown = replace(plan, number=self._made, context=self._offered, language=self._language)
            self._remember(Frame(shown, self._prompt_of(shown)))

    def copy(self) -> Planner:
        """Return a planner with the same frames, to see what this one would plan without changing it."""
        other = copy.copy(self)
        other._frames = list(self._frames)
        return other

    def _renewed(self, frame: Frame) -> Frame:
        """Return a frame, remembered with the context that is offered now."""
        return self._remember(self._showing(frame, frame.plan.context.renewed(self._offered)))

    def _showing(self, frame: Frame, context: PromptContext) -> Frame:
        """Return a frame with another context."""
        if frame.plan.context == context:
            return frame
        plan = replace(frame.plan, context=context)
        return Frame(plan, self._prompt_of(plan))

    def _cheapest(self, fitting: Iterator[Plan], new: Iterator[Plan], cancel: Cancel) -> Frame:
        kept = self._least(_until(cancel, fitting))
        if kept is not None and kept[0] <= CHEAP:
            return kept[1]
        made = self._least(_until(cancel, new))
        assert made is not None
        return made[1] if kept is None or made[0] < kept[0] else kept[1]

    def _least(self, plans: Iterator[Plan]) -> tuple[int, Frame] | None:
        """Return the fewest recomputed tokens and the first frame that needs them, None without plans."""
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
            least = min(least, len(frame.ids) - self._resumes_at(common_prefix(each.ids, frame.ids)))
            if least <= UNBEATABLE:
                break
        return least

    def _remember(self, frame: Frame) -> Frame:
        self._frames = [each for each in self._frames if each.plan.number != frame.plan.number]
        self._frames = [*self._frames, frame][-FRAMES:]
        self._made = max(self._made, frame.plan.number + 1)
        return frame

    def _fitting(self, text: str, cursor: int) -> Iterator[Plan]:
        """Yield the plans of frames that fit the current text, most recently used first."""
        _, line_end, below = enclosing_line(text, cursor)
        for frame in reversed(self._frames):
            last = frame.plan
            anchor = self._kept_anchor(text, cursor, below, last)
            if anchor is not None:
                kind = "kept" if frame is self._frames[-1] else "restored"
                start, typed, rest = anchor - len(last.head), text[anchor:cursor], text[cursor:line_end]
                yield replace(last, frame=kind, start=start, typed=typed, rest=rest, language=self._language)

    def _new(self, text: str, cursor: int, cancel: Cancel, short: Window | None = None) -> Iterator[Plan]:
        """Yield plans of new frames at the cursor, one for each distinct window start; `short` ones if given."""
        window, (_, line_end, below) = short or self._window, enclosing_line(text, cursor)
        anchor, tail = new_anchor(self._window, self._budget, text, cursor), window.tail(text, below)
        known = [frame.plan for frame in reversed(self._frames) if not frame.plan.short]
        windows = [(plan.start, plan.head) for plan in known] or [None]
        for start in dict.fromkeys(window.start(text, anchor, last) for last in _until(cancel, windows)):
            head, typed, rest = text[start:anchor], text[anchor:cursor], text[cursor:line_end]
            offered, language = self._offered.steady, self._language
            yield Plan("new", self._made, start, head, typed, rest, tail, offered, language, short is not None)

    def _kept_anchor(self, text: str, cursor: int, below: int, last: Plan) -> int | None:
        """Return a frame's current anchor, None if the frame does not fit.

        It is found in the text itself: edits are not tracked, so none can be missed.
        """
        if not text.startswith(last.tail, below):
            return None
        size = len(last.head)
        if not size and last.start:
            return None  # an empty head cannot be found in the text
        for anchor in chain([last.start + size], self._line_starts(text, cursor, last.head[-MARK:])):
            if size <= anchor <= cursor and text.startswith(last.head, anchor - size):
                fits = self._window.fits(text[anchor:cursor], self._budget.typed) and self._reaches(text, last, below)
                return anchor if fits else None
        return None

    def _line_starts(self, text: str, cursor: int, mark: str) -> Iterator[int]:
        """Yield the line starts within reach of the cursor that a head with this end may end at, nearest first."""
        farthest = max(0, cursor - self._budget.typed * MOST_CHARACTERS - len(mark))
        for at in line_starts_after(text, mark, farthest, cursor):
            if len(LINE_END.findall(text, at, cursor)) >= REMEMBERED_LINES:
                return
            yield at

    def _reaches(self, text: str, last: Plan, below: int) -> bool:
        """Return whether a tail that fits is still long enough: moving up through typed lines makes it too short."""
        window = self._short if self._short and last.short else self._window
        return (
            below + len(last.tail) == len(text) or window.is_long(last.tail) or last.tail == window.tail(text, below)
        )


def _until(cancel: Cancel, items: Iterable[T]) -> Iterator[T]:
    """Yield the items; raises Cancelled between two of them once `cancel()` is true."""
    for number, item in enumerate(items):
        if number and cancel():
            raise Cancelled
        yield item


def new_anchor(window: Window, budget: Budget, text: str, cursor: int) -> int:
    """Return the start of a line up to LEAD lines above the cursor's (R1), in code points.

    In a line longer than typed may be, return a fixed place inside it.
    """
    start, room = line_start(text, cursor), budget.typed
    if window.fits(text[start:cursor], room):
        above = islice(lines_upwards(text, cursor), 1 + LEAD)
        return min((at for at in above if window.fits(text[at:cursor], room // 2)), default=start)
    near = range(start, cursor, ANCHOR_STEP)[-room * MOST_CHARACTERS // ANCHOR_STEP :]
    return next((at for at in near if window.fits(text[at:cursor], room // 2)), near[-1])
