"""Counts what each keystroke of a recorded session would recompute, by document and planner alone, no model.

The arena is taken to hold the last prompt; what a prompt shares with it at the start costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from efim_ls.planner import Planner
from efim_ls.window import Budget, Window
from model_runtime.config import EMBEDDED
from model_runtime.ids import Ids, common_prefix
from model_runtime.prompt import build, in_order
from model_runtime.template import Template, find_template
from model_runtime.tokenizer import Tokenizer

Policy = Callable[[str, int], tuple[Ids, bool]]  # text and cursor to prompt ids, and whether the frame is new
NONE = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class Count:
    """Tokens of one keystroke's prompt, and those that had to go through the model for it."""

    prompt_tokens: int
    recomputed: int
    background: bool
    reanchored: bool


def count(edits: Iterable[tuple[str, int]], policy: str, budget: Budget, folder: Path = EMBEDDED) -> Iterator[Count]:
    """Count each keystroke's tokens, given the text and the cursor after it, under one of POLICIES."""
    tokenizer = Tokenizer(folder / "tokenizer.json")
    prompt_of = POLICIES[policy](tokenizer, find_template(tokenizer.special), budget)
    held = NONE
    for text, cursor in edits:
        ids, new = prompt_of(text, cursor)
        reused = 0 if policy == "none" else common_prefix(held, ids)
        held = ids
        yield Count(len(ids), len(ids) - reused, background=False, reanchored=new)


class Infilling:
    """The orders that put the text before the cursor into one part: PSM and SPM.

    They get the same sticky window as EFIM: one that follows the cursor would recompute everything.
    """

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget, suffix_first: bool) -> None:
        """Build prompts in PSM order, or in SPM order as Code Llama writes it."""
        self._tokenizer, self._template, self._suffix_first = tokenizer, template, suffix_first
        self._window = Window(budget, tokenizer.pieces)
        self._last: tuple[int, str] | None = None

    def __call__(self, text: str, cursor: int) -> tuple[Ids, bool]:
        """Return the prompt at a cursor."""
        start = self._window.start(text, cursor, self._last)
        new = self._last is None or start != self._last[0]
        self._last = start, text[start:cursor]
        before = self._tokenizer.encode(text[start:cursor])
        after = self._tokenizer.encode(self._window.tail(text, cursor))
        head, typed = (NONE, before) if self._suffix_first else (before, NONE)
        return in_order(self._template, head, after, typed), new


class PublishedEfim:
    """EFIM as published: one session; anything but an extension of the text before the cursor begins a new one."""

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget) -> None:
        """Build prompts whose anchor is the cursor where the session began."""
        self._tokenizer, self._template = tokenizer, template
        self._window = Window(budget, tokenizer.pieces)
        self._head, self._tail, self._start = "", "", -1

    def __call__(self, text: str, cursor: int) -> tuple[Ids, bool]:
        """Return the prompt at a cursor."""
        new = not self._extends(text, cursor)
        if new:
            last = (self._start, self._head) if self._start >= 0 else None
            self._start = self._window.start(text, cursor, last)
            self._head, self._tail = text[self._start : cursor], self._window.tail(text, cursor)
        typed = text[self._start + len(self._head) : cursor]
        parts = (self._tokenizer.encode(part) for part in (self._head, self._tail, typed))
        return in_order(self._template, *parts), new

    def _extends(self, text: str, cursor: int) -> bool:
        anchor = self._start + len(self._head)
        fits = self._start >= 0 and anchor <= cursor and text.startswith(self._head, self._start)
        return fits and self._window.tail(text, cursor) == self._tail


class Efim:
    """The rules of this project, through its own planner."""

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget) -> None:
        """Build the prompts that the server sends."""
        self._tokenizer, self._template = tokenizer, template
        self._planner = Planner(budget, tokenizer.pieces)

    def __call__(self, text: str, cursor: int) -> tuple[Ids, bool]:
        """Return the prompt at a cursor."""
        plan = self._planner.plan(text, cursor)
        prompt = build(self._tokenizer, self._template, plan.head, plan.tail, plan.typed)
        return prompt.ids, plan.frame == "new"


POLICIES: dict[str, Callable[[Tokenizer, Template, Budget], Policy]] = {
    "none": lambda k, t, b: Infilling(k, t, b, suffix_first=False),
    "psm": lambda k, t, b: Infilling(k, t, b, suffix_first=False),
    "spm": lambda k, t, b: Infilling(k, t, b, suffix_first=True),
    "efim-paper": PublishedEfim,
    "efim": Efim,
}
