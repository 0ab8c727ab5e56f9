"""Prompts with excerpts of other files, in this server's layout and in other tools' layouts; the same texts in all.

How the others order a prompt, and when each part changes, was read in their sources: llama.vim a1c8e6e, tabby
21b29048d, continue d0a3c0b626, vscode-copilot-chat 31acd00a8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random

import numpy as np

from efim_lab.gate.replay.policies import Policy, PolicyPrompt, StickyWindow, count_with
from efim_lab.gate.replay.report import KeystrokeRow
from efim_lab.gate.replay.trace import Trace, keystrokes
from efim_lab.studies.layouts.simulated_repository import SimulatedRepository, files_of
from efim_ls.completion.planning.planner import FRAMES, Frame, Plan, Planner
from efim_ls.completion.planning.window import Budget
from model_runtime.ids import Ids
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.prompt.prompt import LaidOut, Prompt, PromptPart, build, order_parts, window_ids
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import FULL_EXCERPTS, NO_EXCERPTS, Excerpt, Excerpts
from model_runtime.shelves.excerpts.layout import PlainLayout, excerpt_ids

# One rest in five is where the model is unsure: as many as a model that asks for retrieval itself (arXiv 2403.10059:
# 18 to 19 %).
UNSURE_RESTS = 5
NEARBY = 2_000  # characters from the place for which a chunk was looked up
RING, JUMP = 16, 1_000  # llama.vim's chunks, and characters that a cursor moves to add one (32 lines)


def count_layouts(
    recorded: Trace, budget: Budget, folder: Path, other: Path | None
) -> Iterator[tuple[str, list[KeystrokeRow]]]:
    """Count each keystroke's tokens in all LAYOUTS of the same excerpts, with all parts switched on.

    `folder` is the model's; excerpts are cut from the files of `other` or, if None, from the recording's last text.
    """
    _, _, tokenizer, template, _ = read_checkpoint(folder)
    room = replace(budget, markers=template.markers, context=FULL_EXCERPTS)
    for name, layout in LAYOUTS.items():
        repository = SimulatedRepository(files_of(other, recorded), tokenizer, FULL_EXCERPTS)
        yield name, list(count_with(keystrokes(recorded), layout(tokenizer, template, room, repository), room))


class EfimWithExcerpts(Policy):
    """Stable parts in front, frozen with the frame; volatile ones behind the tail, changed where the cursor rests."""

    frames = FRAMES

    def __init__(
        self, tokenizer: Tokenizer, template: Template, budget: Budget, repository: SimulatedRepository
    ) -> None:
        """Build the prompts that the server sends."""
        self._tokenizer, self._template, self._repository = tokenizer, template, repository
        self._layout = PlainLayout(tokenizer, template, budget.context_tokens)
        self._planner = Planner(budget, tokenizer.pieces, self._prompt)
        self._rests = 0
        self._stable = NO_EXCERPTS
        self._similar: tuple[int, tuple[Excerpt, ...]] = 0, ()

    def prompt(self, text: str, cursor: int) -> PolicyPrompt:
        """Return the prompt at a cursor."""
        self._offer(text, cursor)
        return self._of(self._planner.plan(text, cursor))

    def prefetched(self, text: str, cursor: int) -> Iterator[PolicyPrompt]:
        """Return the cursor's frame with the excerpts of now and, if typed has nearly outgrown it, the next one."""
        self._stable = self._repository.stable(text)
        if self._rests % UNSURE_RESTS == 0:
            self._similar = cursor, self._repository.similar(text, cursor)
        self._rests += 1
        self._offer(text, cursor)
        yield self._of(self._planner.plan_at_rest(text, cursor))
        if renewed := self._planner.plan_next(text, cursor):
            yield self._of(renewed)

    def _offer(self, text: str, cursor: int) -> None:
        if self._stable is NO_EXCERPTS:
            self._stable = self._repository.stable(text)
        at, similar = self._similar
        self._planner.offer(self._stable._replace(similar=similar if abs(cursor - at) <= NEARBY else ()))

    def _of(self, frame: Frame) -> PolicyPrompt:
        return PolicyPrompt(frame.ids, frame.plan.number, frame.plan.frame == "new")

    def _prompt(self, plan: Plan) -> Prompt:
        shown = self._layout.lay_out(plan.context)
        return build(self._tokenizer, self._template, plan.head, plan.tail, plan.typed, context=shown)


class InfillingWithExcerpts(Policy):
    """The same texts in another tool's order, around a window that moves as seldom as ours."""

    def __init__(
        self, tokenizer: Tokenizer, template: Template, budget: Budget, repository: SimulatedRepository
    ) -> None:
        """Build prompts with one sequence, whose beginning is reused."""
        self._tokenizer, self._template, self._repository = tokenizer, template, repository
        self._excerpt_ids = cache(partial(excerpt_ids, tokenizer, template))
        self._window = StickyWindow(tokenizer, budget)

    def prompt(self, text: str, cursor: int) -> PolicyPrompt:
        """Return the prompt at a cursor."""
        before, after, new = self._window.cut(text, cursor)
        shown = self._repository.stable(text)._replace(similar=self._repository.similar(text, cursor))
        return PolicyPrompt(self._ordered(shown, before, after, cursor), 0, new)

    def _ordered(self, shown: Excerpts, before: Ids, after: Ids, cursor: int) -> Ids:
        """Return the prompt of the shown excerpts and the texts before and after the cursor."""
        raise NotImplementedError

    def _in_front(self, excerpts: tuple[Excerpt, ...], before: Ids, after: Ids) -> Ids:
        laid = LaidOut(front=(PromptPart("signatures", self._ids(excerpts)),))
        return window_ids(order_parts(self._template, before, after, before[:0], context=laid))

    def _ids(self, excerpts: tuple[Excerpt, ...]) -> Ids:
        parts = [self._excerpt_ids(each) for each in excerpts]
        return np.concatenate((np.zeros(0, dtype=np.int32), *parts))


class LlamaVim(InfillingWithExcerpts):
    """A ring of chunks in front of prefix and suffix; a jump adds the similar chunk, and the oldest goes."""

    _ring: tuple[Excerpt, ...] = ()
    _at = 0

    def _ordered(self, shown: Excerpts, before: Ids, after: Ids, cursor: int) -> Ids:
        if not self._ring or abs(cursor - self._at) > JUMP:
            missing = [each for each in shown.all if each not in self._ring]
            self._ring = (*self._ring, *missing)[-max(RING, len(shown.all)) :]
        self._at = cursor
        return self._in_front(self._fitting(shown), before, after)

    def _fitting(self, shown: Excerpts) -> tuple[Excerpt, ...]:
        """Return the last of the ring, as many as others show."""
        return self._ring[-len(shown.all) :] if shown.all else ()


class Tabby(InfillingWithExcerpts):
    """Comments in front of prefix and suffix, looked up for each request; the best comes last, next to the code."""

    def _ordered(self, shown: Excerpts, before: Ids, after: Ids, cursor: int) -> Ids:
        return self._in_front(shown.all, before, after)


class Continue(InfillingWithExcerpts):
    """Snippets in front of prefix and suffix, shuffled for each request."""

    _asked = 0

    def _ordered(self, shown: Excerpts, before: Ids, after: Ids, cursor: int) -> Ids:
        snippets = list(shown.all)
        Random(self._asked).shuffle(snippets)
        self._asked += 1
        return self._in_front(tuple(snippets), before, after)


class Copilot(InfillingWithExcerpts):
    """By how often each changes: stable context, suffix, volatile context, prefix; it is chosen for each request."""

    def _ordered(self, shown: Excerpts, before: Ids, after: Ids, cursor: int) -> Ids:
        template = self._template
        marks = (np.array(each, dtype=np.int32) for each in (template.bos, template.suffix, template.prefix))
        bos, suffix, prefix = marks
        stable, similar = self._ids(shown.signatures + shown.imports), self._ids(shown.similar)
        middle = np.array(template.middle, dtype=np.int32)
        return np.concatenate((bos, stable, suffix, after, similar, prefix, middle, before))


LAYOUTS: dict[str, Callable[[Tokenizer, Template, Budget, SimulatedRepository], Policy]] = {
    "efim": EfimWithExcerpts,
    "llama.vim": LlamaVim,
    "tabby": Tabby,
    "continue": Continue,
    "copilot": Copilot,
}
