"""Turns a place in a text into head, tail and typed, so that typing changes as few prompt tokens as can be.

Pure: it knows texts and a function that counts tokens, no model. The rules' reasons and figures are in
ARCHITECTURE.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from efim_ls.answer import FrameKind
from efim_ls.lines import enclosing_line, lines_upwards
from efim_ls.window import MOST_CHARACTERS, Budget, Pieces, Window
from model_runtime.closers import is_closers
from model_runtime.prompt import LEAD

ANCHOR_STEP = 64  # characters between possible anchors in a line that is too long to be typed
REMEMBERED_LINES = 200  # typed may span this many lines


@dataclass(frozen=True)
class Plan:
    """`head + typed + rest` and tail are a window of the text around the cursor, exactly.

    `rest` is the text between cursor and line end. Where it is more than closers, the tail begins with it
    (`rest_closes` false); else the tail begins on the next line and rest stays out of the prompt.
    `start` is where the head begins, in code points.
    """

    frame: FrameKind
    start: int
    head: str
    typed: str
    rest: str
    tail: str
    rest_closes: bool


class Planner:
    """Plans for one document; remembers one frame, the last plan. Used on the engine thread only."""

    def __init__(self, budget: Budget, pieces: Pieces) -> None:
        """`pieces` cuts a text into the fragments that are tokenized apart, each with its number of tokens."""
        self._budget, self._window = budget, Window(budget, pieces)
        self._last: Plan | None = None

    def plan(self, text: str, cursor: int) -> Plan:
        """Keep the frame where it fits what the text is now, else make a new one at the cursor's line."""
        line_start, line_end, below = enclosing_line(text, cursor)
        rest = text[cursor:line_end]
        closes = is_closers(rest)
        tail_at = below if closes else cursor
        last, anchor = self._last, self._kept_anchor(text, cursor, tail_at)
        if last is not None and anchor is not None:
            head, tail, frame, start = last.head, last.tail, "kept", anchor - len(last.head)
        else:
            anchor = self._new_anchor(text, line_start, cursor)
            start, frame = self._window.start(text, anchor, last and (last.start, last.head)), "new"
            head, tail = text[start:anchor], self._window.tail(text, tail_at)
        self._last = Plan(frame, start, head, text[anchor:cursor], rest, tail, closes)
        return self._last

    def _kept_anchor(self, text: str, cursor: int, tail_at: int) -> int | None:
        """Where the last frame's anchor is now, or None where the frame does not fit.

        It is looked for in the text itself: edits are not tracked, so none can be missed.
        """
        last = self._last
        if last is None or not text.startswith(last.tail, tail_at) or not self._reaches(text, last, tail_at):
            return None
        size = len(last.head)
        if not size and last.start:
            return None  # no text tells where such a frame is now
        for anchor in (last.start + size, *islice(lines_upwards(text, cursor), REMEMBERED_LINES)):
            if size <= anchor <= cursor and text.startswith(last.head, anchor - size):
                return anchor if self._window.fits(text[anchor:cursor], self._budget.typed) else None
        return None

    def _reaches(self, text: str, last: Plan, tail_at: int) -> bool:
        """A tail that fits may have become too short, as when the cursor went up through typed lines."""
        if tail_at + len(last.tail) == len(text) or self._window.count(last.tail) * 2 >= self._budget.tail:
            return True
        return last.tail == self._window.tail(text, tail_at)

    def _new_anchor(self, text: str, line_start: int, cursor: int) -> int:
        """The start of a line a few lines above (R1), or a fixed place inside a line that is too long to be typed."""
        room = self._budget.typed
        if self._window.fits(text[line_start:cursor], room):
            above = islice(lines_upwards(text, cursor), 1 + LEAD)
            return min((at for at in above if self._window.fits(text[at:cursor], room // 2)), default=line_start)
        near = range(line_start, cursor, ANCHOR_STEP)[-room * MOST_CHARACTERS // ANCHOR_STEP :]
        return next((at for at in near if self._window.fits(text[at:cursor], room // 2)), near[-1])
