"""Counts what each keystroke of a recorded session would recompute, with planner and pool but no model.

Sequences without tensors stand in for arenas; the prefix that a prompt shares with one costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from efim_lab.gate.replay.radix_cache import RadixCache
from efim_lab.gate.replay.report import KeystrokeRow
from efim_lab.gate.replay.trace import Keystroke
from efim_lab.gate.simulation import simulate_prefill
from efim_ls.completion.planning.planner import FRAMES, Frame, Plan, Planner
from efim_ls.completion.planning.window import Budget, Window
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId, Pool
from model_runtime.kv.sequence import TokenSequence
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.prompt.prompt import Prompt, build, order_parts, window_ids
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.row_rules import PLAIN
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.states.rule import StateRule

DOCUMENT = ""
NO_IDS = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class PolicyPrompt:
    """A prompt, the number of its frame, whether that frame is new, and where its parts end."""

    ids: Ids
    frame: int
    new: bool
    ends: tuple[int, ...] = ()


class Policy:
    """Turns a text and a cursor into a prompt; keeps one sequence and prefetches nothing unless overridden."""

    frames = 1

    def prompt(self, text: str, cursor: int) -> PolicyPrompt:
        """Return the prompt at a cursor."""
        raise NotImplementedError

    def prefetched(self, text: str, cursor: int) -> Iterator[PolicyPrompt]:
        """Return the prompts to compute ahead while the cursor rests."""
        yield from ()


def count_rows(
    keystrokes: Iterable[Keystroke], policy: str, budget: Budget, folder: Path = EMBEDDED, snapshots: int = 0
) -> Iterator[KeystrokeRow]:
    """Count each keystroke's tokens under one of POLICIES; "none" is PSM without any reuse.

    With `snapshots` the model's layers have states, and `snapshots` of them are kept for a file.
    """
    _, _, tokenizer, template, _ = read_checkpoint(folder)
    prompts, room = POLICIES[policy](tokenizer, template, budget), replace(budget, markers=template.markers)
    yield from count_with(keystrokes, prompts, room, policy == "none", snapshots)


def count_with(
    keystrokes: Iterable[Keystroke], prompts: Policy, room: Budget, reuses_nothing: bool = False, snapshots: int = 0
) -> Iterator[KeystrokeRow]:
    """Count each keystroke's tokens with sequences that have room for a budget's longest prompt."""
    states = snapshots // prompts.frames
    pool = Pool(
        lambda: TokenSequence(room.prompt_tokens, rules=(StateRule(states),) if states else PLAIN), prompts.frames
    )
    for key in keystrokes:
        ahead = sum(_recompute(pool, each, True) for each in prompts.prefetched(*key.rested)) if key.rested else 0
        prompt = prompts.prompt(key.text, key.cursor)
        recomputed = len(prompt.ids) if reuses_nothing else _recompute(pool, prompt, False)
        yield KeystrokeRow(len(prompt.ids), recomputed, ahead, pool.wasted, prompt.new)


def count_radix_rows(keystrokes: Iterable[Keystroke], policy: str, budget: Budget) -> Iterator[KeystrokeRow]:
    """Count each keystroke's tokens under one of POLICIES where a radix cache holds as many tokens as our frames."""
    _, _, tokenizer, template, _ = read_checkpoint(EMBEDDED)
    prompts, room = POLICIES[policy](tokenizer, template, budget), replace(budget, markers=template.markers)
    cache = RadixCache(FRAMES * room.prompt_tokens)
    for key in keystrokes:
        prompt = prompts.prompt(key.text, key.cursor)
        yield KeystrokeRow(len(prompt.ids), cache.prefill(prompt.ids), 0, 0, prompt.new)


def _recompute(pool: Pool[TokenSequence], prompt: PolicyPrompt, ahead: bool) -> int:
    """Bring the frame's sequence to a prompt; return how many tokens were recomputed."""
    sequence = pool.acquire(FrameId(DOCUMENT, prompt.frame), SequenceKey(prompt.ids))
    recomputed = simulate_prefill(sequence, prompt.ids, prompt.ends)
    if ahead:
        sequence.rows.mark_unneeded(len(prompt.ids) - recomputed)
    else:
        sequence.rows.mark_needed(sequence.length)
    return recomputed


class StickyWindow:
    """Cuts prompts whose window moves as seldom as EFIM's: a window that follows the cursor recomputes everything."""

    def __init__(self, tokenizer: Tokenizer, budget: Budget) -> None:
        """Start without a window."""
        self._tokenizer, self._window = tokenizer, Window(budget, tokenizer.pieces)
        self._last: tuple[int, str] | None = None

    def cut(self, text: str, cursor: int) -> tuple[Ids, Ids, bool]:
        """Return the ids before and after the cursor, and whether the window has moved."""
        start = self._window.start(text, cursor, self._last)
        has_moved = self._last is None or start != self._last[0]
        self._last = start, text[start:cursor]
        after = self._window.tail(text, cursor)
        return self._tokenizer.encode(text[start:cursor]), self._tokenizer.encode(after), has_moved


class Infilling(Policy):
    """PSM and SPM: the orders that put all text before the cursor into one part."""

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget, suffix_first: bool) -> None:
        """Build prompts in PSM order or, with `suffix_first`, in Code Llama's SPM order."""
        self._template, self._suffix_first = template, suffix_first
        self._window = StickyWindow(tokenizer, budget)

    def prompt(self, text: str, cursor: int) -> PolicyPrompt:
        """Return the prompt at a cursor."""
        before, after, new = self._window.cut(text, cursor)
        head, typed = (NO_IDS, before) if self._suffix_first else (before, NO_IDS)
        return PolicyPrompt(window_ids(order_parts(self._template, head, after, typed)), 0, new)


class PublishedEfim(Policy):
    """EFIM as published: one session, which ends when the text before the cursor is anything but extended."""

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget) -> None:
        """Build prompts whose anchor is the cursor where the session began."""
        self._tokenizer, self._template = tokenizer, template
        self._window = Window(budget, tokenizer.pieces)
        self._head, self._tail, self._start = "", "", -1

    def prompt(self, text: str, cursor: int) -> PolicyPrompt:
        """Return the prompt at a cursor."""
        new = not self._extends(text, cursor)
        if new:
            last = (self._start, self._head) if self._start >= 0 else None
            self._start = self._window.start(text, cursor, last)
            self._head, self._tail = text[self._start : cursor], self._window.tail(text, cursor)
        typed = text[self._start + len(self._head) : cursor]
        head, tail, done = (self._tokenizer.encode(part) for part in (self._head, self._tail, typed))
        return PolicyPrompt(window_ids(order_parts(self._template, head, tail, done)), 0, new)

    def _extends(self, text: str, cursor: int) -> bool:
        anchor = self._start + len(self._head)
        fits = self._start >= 0 and anchor <= cursor and text.startswith(self._head, self._start)
        return fits and self._window.tail(text, cursor) == self._tail


class Efim(Policy):
    """EFIM with the rules of this project, through the server's planner."""

    frames = FRAMES

    def __init__(self, tokenizer: Tokenizer, template: Template, budget: Budget) -> None:
        """Build the prompts that the server sends."""
        self._tokenizer, self._template = tokenizer, template
        self._planner = Planner(budget, tokenizer.pieces, self._prompt)

    def prompt(self, text: str, cursor: int) -> PolicyPrompt:
        """Return the prompt at a cursor."""
        return self._of(self._planner.plan(text, cursor))

    def prefetched(self, text: str, cursor: int) -> Iterator[PolicyPrompt]:
        """Return the cursor's frame and, if typed has nearly outgrown it, the one after it."""
        yield self._of(self._planner.plan(text, cursor))
        if renewed := self._planner.plan_next(text, cursor):
            yield self._of(renewed)

    def _of(self, frame: Frame) -> PolicyPrompt:
        return PolicyPrompt(frame.ids, frame.plan.number, frame.plan.frame == "new", frame.prompt.ends)

    def _prompt(self, plan: Plan) -> Prompt:
        return build(self._tokenizer, self._template, plan.head, plan.tail, plan.typed)


POLICIES: dict[str, Callable[[Tokenizer, Template, Budget], Policy]] = {
    "none": lambda k, t, b: Infilling(k, t, b, suffix_first=False),
    "psm": lambda k, t, b: Infilling(k, t, b, suffix_first=False),
    "spm": lambda k, t, b: Infilling(k, t, b, suffix_first=True),
    "efim-paper": PublishedEfim,
    "efim": Efim,
}
