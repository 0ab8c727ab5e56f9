"""EFIM prompts: `PREFIX head SUFFIX tail MIDDLE typed` as token ids (arXiv 2505.21889), healed at the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from model_runtime.counts.view import MemoryView
from model_runtime.ids import Ids
from model_runtime.isolated import NONE_ISOLATED, IsolatedExcerpts, Mask, isolated_excerpts
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer

PartName = Literal["marker", "preamble", "definitions", "head", "tail", "volatile", "typed"]

HISTORY_BREAK = np.array([-1], dtype=np.int32)  # no token: matches of the n-gram cache do not cross it
LONGEST_STUB_BYTES = 48  # and at most as many new tokens to spell them again; a longer word stays in the prompt


@dataclass(frozen=True)
class Surroundings:
    """Texts that no prompt has room for, read by the n-gram cache only: `before` the head, `after` the tail, others.

    `others` are other files, the least important first.
    """

    before: str = ""
    after: str = ""
    others: tuple[str, ...] = ()


NO_SURROUNDINGS = Surroundings()
NO_IDS = np.zeros(0, dtype=np.int32)


class LaidOut(NamedTuple):
    """Token ids of excerpts of other files, with their markers.

    `preamble`, `definitions` and the document's own `path` stand in front of the window: before the prefix's marker,
    or behind it if they are `inside`, as comments are; `volatile` stands behind the tail. `path_inside`: the path
    alone stands behind the prefix's marker.

    Or none of them is among the prompt's ids, and all lie in a `room` of isolated excerpts, one after the other, from
    the documents named `origins`; `mask` says from where on these are seen.
    """

    preamble: Ids = NO_IDS
    definitions: Ids = NO_IDS
    path: Ids = NO_IDS
    volatile: Ids = NO_IDS
    inside: bool = False
    path_inside: bool = False
    room: tuple[Ids, ...] = ()
    origins: tuple[str, ...] = ()
    mask: Mask = "typed"

    @property
    def tokens(self) -> int:
        """Number of ids in all."""
        return sum(map(len, (self.preamble, self.definitions, self.path, self.volatile)))

    @property
    def front(self) -> tuple[Ids, Ids]:
        """What stands before the prefix's marker, and what stands behind it."""
        if self.room:
            return NO_IDS, NO_IDS
        first, path = (self.preamble, self.definitions), (self.path,)
        before = () if self.inside else first if self.path_inside else first + path
        behind = first + path if self.inside else path if self.path_inside else ()
        return np.concatenate((NO_IDS, *before)), np.concatenate((NO_IDS, *behind))


NOTHING_LAID_OUT = LaidOut()


@dataclass(frozen=True)
class Prompt:
    """Token ids to compute, and the text that the first new tokens must spell.

    `stub` is the unfinished word at the cursor: taken out of the prompt so that the model can finish it with the
    tokens it would have used, and so that typing on inside the word leaves the prompt unchanged. `history` is what
    the n-gram cache reads, the nearest text last: other files, what follows the cursor, what precedes it, with breaks
    between them. It also reads the counts of `memory`. `head`, `tail` and `typed` are numbers of tokens;
    `excerpts` are the ids of other files' text, among `ids` or in a room before them, which the first `blind` of
    `ids` do not see.
    """

    ids: Ids
    stub: bytes
    history: Ids
    head: int
    tail: int
    typed: int
    memory: MemoryView | None = None
    excerpts: LaidOut = NOTHING_LAID_OUT
    blind: int = 0

    @cached_property
    def isolated(self) -> IsolatedExcerpts:
        """The excerpts in the room and what does not see them, to compare with others."""
        return isolated_excerpts(self.excerpts.room, self.blind) if self.excerpts.room else NONE_ISOLATED

    @property
    def all_ids(self) -> Ids:
        """The ids with those in the room, which stand where they are seen: before the middle's marker."""
        blind = len(self.ids) if not self.excerpts.room else self.blind
        return np.concatenate((self.ids[:blind], *self.excerpts.room, self.ids[blind:]))

    @property
    def tokens(self) -> int:
        """Number of tokens with those in the room."""
        return len(self.ids) + self.isolated.tokens


def with_isolated(
    prompt: Prompt, template: Template, mask: Mask, room: Sequence[Ids], origins: Sequence[str]
) -> Prompt:
    """Return the prompt with excerpts of the documents of these names, seen from where the mask says on."""
    laid = LaidOut(room=tuple(room), origins=tuple(origins), mask=mask)
    return replace(prompt, excerpts=laid, blind=_blind(template, len(prompt.ids), prompt.typed, laid))


def _blind(template: Template, ids: int, typed: int, excerpts: LaidOut) -> int:
    """Return how many of the first ids do not see the excerpts in the room."""
    return ids - typed - len(template.middle) if excerpts.room and excerpts.mask == "typed" else 0


def order_parts(template: Template, head: Ids, tail: Ids, typed: Ids, *, excerpts: LaidOut = NOTHING_LAID_OUT) -> Ids:
    """Return the ids of `PREFIX head SUFFIX tail MIDDLE typed`, or as the template orders them.

    FIM's and SPM's orders leave typed or head empty. Of excerpts, those that change least stand first and the
    volatile ones behind the tail, so that a change of these costs their own tokens and typed.
    """
    before, behind = excerpts.front
    parts = [_ids(template.prefix), behind, head, _ids(template.suffix), tail]
    if template.tail_first:
        parts = parts[3:] + parts[:3]
    volatile = NO_IDS if excerpts.room else excerpts.volatile
    return np.concatenate((_ids(template.bos), before, *parts, volatile, _ids(template.middle), typed))


def part_sizes(template: Template, prompt: Prompt) -> list[tuple[PartName, int]]:
    """Return the parts of a prompt in the order of `Prompt.all_ids`, each with its number of tokens."""
    shown = prompt.excerpts
    path: tuple[PartName, int] = ("marker", len(shown.path))
    front: list[tuple[PartName, int]] = [("preamble", len(shown.preamble)), ("definitions", len(shown.definitions))]
    last: list[tuple[PartName, int]] = [("marker", len(template.middle)), ("typed", prompt.typed)]
    if shown.room:
        last, front = [*front, ("volatile", len(shown.volatile)), *last], []
        shown = NOTHING_LAID_OUT
    before = [] if shown.inside else front if shown.path_inside else [*front, path]
    behind = [*front, path] if shown.inside else [path] if shown.path_inside else []
    head: list[tuple[PartName, int]] = [("marker", len(template.prefix)), *behind, ("head", prompt.head)]
    tail: list[tuple[PartName, int]] = [("marker", len(template.suffix)), ("tail", prompt.tail)]
    parts = [*tail, *head] if template.tail_first else [*head, *tail]
    return [("marker", len(template.bos)), *before, *parts, ("volatile", len(shown.volatile)), *last]


def _ids(marker: tuple[int, ...]) -> Ids:
    return np.array(marker, dtype=np.int32)


def build(
    tokenizer: Tokenizer,
    template: Template,
    head: str,
    tail: str,
    typed: str,
    around: Surroundings = NO_SURROUNDINGS,
    excerpts: LaidOut = NOTHING_LAID_OUT,
) -> Prompt:
    """Build the prompt; a pure function of its texts, whatever was built before."""
    done, stub = heal(tokenizer, typed)
    return assemble(tokenizer, template, head, tail, done, stub, around, excerpts)


def assemble(
    tokenizer: Tokenizer,
    template: Template,
    head: str,
    tail: str,
    typed: str,
    stub: str = "",
    around: Surroundings = NO_SURROUNDINGS,
    excerpts: LaidOut = NOTHING_LAID_OUT,
) -> Prompt:
    """Build the prompt without healing: `stub` has already been taken out of typed."""
    h, t, y = tokenizer.encode(head and template.lead + head), tokenizer.encode(tail), tokenizer.encode(typed)
    ids = order_parts(template, h, t, y, excerpts=excerpts)
    prompt = Prompt(
        ids=ids,
        stub=stub.encode("utf-8", "replace"),
        history=np.concatenate((t, HISTORY_BREAK, h, y)),
        head=len(h),
        tail=len(t),
        typed=len(y),
        excerpts=excerpts,
        blind=_blind(template, len(ids), len(y), excerpts),
    )
    return prompt if around == NO_SURROUNDINGS else surrounded(tokenizer, prompt, around)


def surrounded(tokenizer: Tokenizer, prompt: Prompt, around: Surroundings) -> Prompt:
    """Return a prompt that was built without surroundings, with these in its history."""
    others = [part for text in around.others for part in (tokenizer.encode(text), HISTORY_BREAK)]
    before, after = tokenizer.encode(around.before), tokenizer.encode(around.after)
    tail, window = prompt.history[: prompt.tail], prompt.history[prompt.tail + len(HISTORY_BREAK) :]
    return replace(prompt, history=np.concatenate((*others, tail, after, HISTORY_BREAK, before, window)))


def history_of(tokenizer: Tokenizer, others: tuple[str, ...], above: str, line: str) -> tuple[Ids, bytes]:
    """Return the history and the stub of a prompt that no model reads: other texts, then what precedes the cursor.

    `others` are the least important first; `line` is the cursor's, up to the cursor.
    """
    done, stub = heal(tokenizer, line)
    apart = [part for text in others for part in (tokenizer.encode(text), HISTORY_BREAK)]
    history = np.concatenate((*apart, tokenizer.encode(above), tokenizer.encode(done)))
    return history, stub.encode("utf-8", "replace")


def heal(tokenizer: Tokenizer, typed: str) -> tuple[str, str]:
    """Split typed into what stays in the prompt and the stub, whose tokens may change as the user types on."""
    cut = tokenizer.unfinished(typed)
    if len(typed[cut:].encode("utf-8", "replace")) > LONGEST_STUB_BYTES:
        return typed, ""
    return typed[:cut], typed[cut:]
