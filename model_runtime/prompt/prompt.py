"""EFIM prompts: `PREFIX head SUFFIX tail MIDDLE typed` as token ids (arXiv 2505.21889), healed at the cursor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from model_runtime.ids import Ids
from model_runtime.memory.view import MemoryView
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
    """

    preamble: Ids = NO_IDS
    definitions: Ids = NO_IDS
    path: Ids = NO_IDS
    volatile: Ids = NO_IDS
    inside: bool = False
    path_inside: bool = False

    @property
    def tokens(self) -> int:
        """Number of ids in all."""
        return sum(map(len, (self.preamble, self.definitions, self.path, self.volatile)))

    @property
    def front(self) -> tuple[Ids, Ids]:
        """What stands before the prefix's marker, and what stands behind it."""
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
    `excerpts` are the ids of other files' text among `ids`.
    """

    ids: Ids
    stub: bytes
    history: Ids
    head: int
    tail: int
    typed: int
    memory: MemoryView | None = None
    excerpts: LaidOut = NOTHING_LAID_OUT


def order_parts(template: Template, head: Ids, tail: Ids, typed: Ids, excerpts: LaidOut = NOTHING_LAID_OUT) -> Ids:
    """Return the ids of `PREFIX head SUFFIX tail MIDDLE typed`, or as the template orders them.

    FIM's and SPM's orders leave typed or head empty. Of excerpts, those that change least stand first and the
    volatile ones behind the tail, so that a change of these costs their own tokens and typed.
    """
    before, behind = excerpts.front
    parts = [_ids(template.prefix), behind, head, _ids(template.suffix), tail]
    if template.tail_first:
        parts = parts[3:] + parts[:3]
    return np.concatenate((_ids(template.bos), before, *parts, excerpts.volatile, _ids(template.middle), typed))


def part_sizes(template: Template, prompt: Prompt) -> list[tuple[PartName, int]]:
    """Return the parts of a prompt in the order of `order_parts`, each with its number of tokens."""
    shown = prompt.excerpts
    path: tuple[PartName, int] = ("marker", len(shown.path))
    front: list[tuple[PartName, int]] = [("preamble", len(shown.preamble)), ("definitions", len(shown.definitions))]
    before = [] if shown.inside else front if shown.path_inside else [*front, path]
    behind = [*front, path] if shown.inside else [path] if shown.path_inside else []
    head: list[tuple[PartName, int]] = [("marker", len(template.prefix)), *behind, ("head", prompt.head)]
    tail: list[tuple[PartName, int]] = [("marker", len(template.suffix)), ("tail", prompt.tail)]
    parts = [*tail, *head] if template.tail_first else [*head, *tail]
    last: list[tuple[PartName, int]] = [("marker", len(template.middle)), ("typed", prompt.typed)]
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
    prompt = Prompt(
        ids=order_parts(template, h, t, y, excerpts),
        stub=stub.encode("utf-8", "replace"),
        history=np.concatenate((t, HISTORY_BREAK, h, y)),
        head=len(h),
        tail=len(t),
        typed=len(y),
        excerpts=excerpts,
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
