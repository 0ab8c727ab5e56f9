"""Counts what each keystroke of a recorded session would recompute, by planner and pool alone, no model.

Sequences without tensors stand for the arenas; what a prompt shares with one at the start costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from efim_lab.simulation import simulate_prefill
from efim_ls.completion.planner import FRAMES, Plan, Planner
from efim_ls.completion.window import Budget, Window
from model_runtime.arena.pool import Owner, Pool
from model_runtime.arena.sequence import Sequence
from model_runtime.checkpoint.config import EMBEDDED
from model_runtime.ids import Ids
from model_runtime.loading.checkpoint import read_checkpoint
from model_runtime.prompt.prompt import build, in_order
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer

DOCUMENT = ""
NONE = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class Asked:
    """A prompt, the frame that it belongs to, and whether that frame is new."""

    ids: Ids
    frame: int
    new: bool


@dataclass(frozen=True)
class Count:
    """Tokens of one keystroke's prompt, those that went through the model for it, and those ahead of it.

    `wasted` are the tokens computed ahead that were given up unused, since the start.
    """

    prompt_tokens: int
    recomputed: int
    ahead: int
    wasted: int
    reanchored: bool


class Keystroke(Protocol):
    """The text and the cursor after a keystroke, and both before it where the cursor rested there for a while."""

    @property
    def text(self) -> str: ...
    @property
    def cursor(self) -> int: ...
    @property
    def rested(self) -> tuple[str, int] | None: ...


class Policy:
    """Turns a text and a cursor into a prompt; one sequence is kept, and nothing computed ahead."""

    frames = 1

    def asked(self, text: str, cursor: int) -> Asked:
        """The prompt at a cursor."""
        raise NotImplementedError

    def coming(self, text: str, cursor: int) -> Iterator[Asked]:
        """The prompts to compute ahead while the cursor rests."""
        yield from ()


def count(keystrokes: Iterable[Keystroke], policy: str, budget: Budget, folder: Path = EMBEDDED) -> Iterator[Count]:
    """Count each keystroke's tokens under one of POLICIES; "none" is PSM without any reuse."""
    _, _, tokenizer, template = read_checkpoint(folder)
    prompts, room = POLICIES[policy](tokenizer, template, budget), replace(budget, markers=template.markers)
    pool = Pool(lambda: Sequence(room.prompt_tokens), prompts.frames)
    for key in keystrokes:
        ahead = sum(_compute(pool, coming, True) for coming in prompts.coming(*key.rested)) if key.rested else 0
        asked = prompts.asked(key.text, key.cursor)
        recomputed = len(asked.ids) if policy == "none" else _compute(pool, asked, False)
        yield Count(len(asked.ids), recomputed, ahead, pool.wasted, asked.new)


def _compute(pool: Pool[Sequence], asked: Asked, ahead: bool) -> int:
    """Bring the frame's sequence to a prompt; return how many tokens were recomputed."""
    sequence = pool.take(Owner(DOCUMENT, asked.frame), asked.ids)
    recomputed = simulate_prefill(sequence, asked.ids)
    if ahead:
        sequence.mark_unneeded(len(asked.ids) - recomputed)
    else:
        sequence.need(sequence.length)
    return recomputed


class Infilling(Policy):
    """The orders that put the text before the cursor into one part: PSM and SPM.

    They get the same sticky window as EFIM: one that follows the cursor would recompute everything.
    """

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget, suffix_first: bool) -> None:
        """Build prompts in PSM order, or in SPM order as Code Llama writes it."""
        self._tokenizer, self._template, self._suffix_first = tokenizer, template, suffix_first
        self._window = Window(budget, tokenizer.pieces)
        self._last: tuple[int, str] | None = None

    def asked(self, text: str, cursor: int) -> Asked:
        """The prompt at a cursor."""
        start = self._window.start(text, cursor, self._last)
        new = self._last is None or start != self._last[0]
        self._last = start, text[start:cursor]
        before = self._tokenizer.encode(text[start:cursor])
        after = self._tokenizer.encode(self._window.tail(text, cursor))
        head, typed = (NONE, before) if self._suffix_first else (before, NONE)
        return Asked(in_order(self._template, head, after, typed), 0, new)


class PublishedEfim(Policy):
    """EFIM as published: one session; anything but an extension of the text before the cursor begins a new one."""

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget) -> None:
        """Build prompts whose anchor is the cursor where the session began."""
        self._tokenizer, self._template = tokenizer, template
        self._window = Window(budget, tokenizer.pieces)
        self._head, self._tail, self._start = "", "", -1

    def asked(self, text: str, cursor: int) -> Asked:
        """The prompt at a cursor."""
        new = not self._extends(text, cursor)
        if new:
            last = (self._start, self._head) if self._start >= 0 else None
            self._start = self._window.start(text, cursor, last)
            self._head, self._tail = text[self._start : cursor], self._window.tail(text, cursor)
        typed = text[self._start + len(self._head) : cursor]
        parts = (self._tokenizer.encode(part) for part in (self._head, self._tail, typed))
        return Asked(in_order(self._template, *parts), 0, new)

    def _extends(self, text: str, cursor: int) -> bool:
        anchor = self._start + len(self._head)
        fits = self._start >= 0 and anchor <= cursor and text.startswith(self._head, self._start)
        return fits and self._window.tail(text, cursor) == self._tail


class Efim(Policy):
    """The rules of this project, through its own planner."""

    frames = FRAMES

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget) -> None:
        """Build the prompts that the server sends."""
        self._tokenizer, self._template = tokenizer, template
        self._planner = Planner(budget, tokenizer.pieces, self._ids)

    def asked(self, text: str, cursor: int) -> Asked:
        """The prompt at a cursor."""
        return self._of(self._planner.plan(text, cursor))

    def coming(self, text: str, cursor: int) -> Iterator[Asked]:
        """The frame of the cursor's place, and the one after it where typed has nearly outgrown that."""
        yield self._of(self._planner.plan(text, cursor))
        if renewed := self._planner.renewed(text, cursor):
            yield self._of(renewed)

    def _of(self, plan: Plan) -> Asked:
        return Asked(self._ids(plan), plan.number, plan.frame == "new")

    def _ids(self, plan: Plan) -> Ids:
        return build(self._tokenizer, self._template, plan.head, plan.tail, plan.typed).ids


POLICIES: dict[str, Callable[[Tokenizer, Template, Budget], Policy]] = {
    "none": lambda k, t, b: Infilling(k, t, b, suffix_first=False),
    "psm": lambda k, t, b: Infilling(k, t, b, suffix_first=False),
    "spm": lambda k, t, b: Infilling(k, t, b, suffix_first=True),
    "efim-paper": PublishedEfim,
    "efim": Efim,
}
