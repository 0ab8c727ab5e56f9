"""EFIM prompts: `PREFIX head SUFFIX tail MIDDLE typed` as token ids (arXiv 2505.21889), healed at the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from model_runtime.excerpts import Excerpts, Mask, excerpts_of
from model_runtime.ids import Ids
from model_runtime.memory.view import MemoryView
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer

PartName = Literal["marker", "head", "tail", "typed"]

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


@dataclass(frozen=True)
class Prompt:
    """Token ids to compute, and the text that the first new tokens must spell.

    `stub` is the unfinished word at the cursor: taken out of the prompt so that the model can finish it with the
    tokens it would have used, and so that typing on inside the word leaves the prompt unchanged. `history` is what
    the n-gram cache reads, the nearest text last: other files, what follows the cursor, what precedes it, with breaks
    between them. It also reads the counts of `memory`. `head`, `tail` and `typed` are numbers of tokens.

    `room` are excerpts of the documents named `origins`, in the order in which they lie before the window, for a
    model that was trained with these; the first `blind` of `ids` do not see them.
    """

    ids: Ids
    stub: bytes
    history: Ids
    head: int
    tail: int
    typed: int
    memory: MemoryView | None = None
    room: tuple[Ids, ...] = ()
    blind: int = 0
    origins: tuple[str, ...] = ()

    @cached_property
    def excerpts(self) -> Excerpts:
        """The excerpts and what does not see them, to compare with others."""
        return excerpts_of(self.room, self.blind)

    @property
    def tokens(self) -> int:
        """Number of tokens with those of the excerpts."""
        return len(self.ids) + self.excerpts.tokens


def with_excerpts(
    prompt: Prompt, template: Template, mask: Mask, room: Sequence[Ids], origins: Sequence[str]
) -> Prompt:
    """Return the prompt with excerpts of the documents of these names, seen from where the mask says on."""
    blind = len(prompt.ids) - prompt.typed - len(template.middle) if mask == "typed" else 0
    return replace(prompt, room=tuple(room), blind=blind, origins=tuple(origins))


def order_parts(template: Template, head: Ids, tail: Ids, typed: Ids) -> Ids:
    """Return the ids of `PREFIX head SUFFIX tail MIDDLE typed`, or as the template orders them.

    FIM's and SPM's orders leave typed or head empty.
    """
    parts = [_ids(template.prefix), head, _ids(template.suffix), tail]
    if template.tail_first:
        parts = parts[2:] + parts[:2]
    return np.concatenate((_ids(template.bos), *parts, _ids(template.middle), typed))


def part_sizes(template: Template, prompt: Prompt) -> list[tuple[PartName, int]]:
    """Return the parts of a prompt in the order of `order_parts`, each with its number of tokens."""
    head: list[tuple[PartName, int]] = [("marker", len(template.prefix)), ("head", prompt.head)]
    tail: list[tuple[PartName, int]] = [("marker", len(template.suffix)), ("tail", prompt.tail)]
    parts = [*tail, *head] if template.tail_first else [*head, *tail]
    return [("marker", len(template.bos)), *parts, ("marker", len(template.middle)), ("typed", prompt.typed)]


def _ids(marker: tuple[int, ...]) -> Ids:
    return np.array(marker, dtype=np.int32)


def build(
    tokenizer: Tokenizer, template: Template, head: str, tail: str, typed: str, around: Surroundings = NO_SURROUNDINGS
) -> Prompt:
    """Build the prompt; a pure function of its texts, whatever was built before."""
    done, stub = heal(tokenizer, typed)
    return assemble(tokenizer, template, head, tail, done, stub, around)


def assemble(
    tokenizer: Tokenizer,
    template: Template,
    head: str,
    tail: str,
    typed: str,
    stub: str = "",
    around: Surroundings = NO_SURROUNDINGS,
) -> Prompt:
    """Build the prompt without healing: `stub` has already been taken out of typed."""
    h, t, y = tokenizer.encode(head and template.lead + head), tokenizer.encode(tail), tokenizer.encode(typed)
    prompt = Prompt(
        ids=order_parts(template, h, t, y),
        stub=stub.encode("utf-8", "replace"),
        history=np.concatenate((t, HISTORY_BREAK, h, y)),
        head=len(h),
        tail=len(t),
        typed=len(y),
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
