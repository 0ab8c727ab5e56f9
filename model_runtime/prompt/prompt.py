"""EFIM prompts: `PREFIX head SUFFIX tail MIDDLE typed` as token ids (arXiv 2505.21889), healed at the cursor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model_runtime.ids import Ids
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer

BREAK = np.array([-1], dtype=np.int32)  # no token: the local cache's matches do not cross it
LONGEST_STUB = 48  # bytes, and at most as many new tokens to spell them again; a longer word is sent as it is


@dataclass(frozen=True)
class Surroundings:
    """Texts that no prompt has room for, for the local cache alone: `before` the head, `after` the tail, other files.

    `others` begin with the one that matters least.
    """

    before: str = ""
    after: str = ""
    others: tuple[str, ...] = ()


NOTHING = Surroundings()


@dataclass(frozen=True)
class Prompt:
    """Token ids to compute, and the text that the first new tokens must spell.

    `stub` is the unfinished word at the cursor: taken out of the prompt so that the model may finish it with the
    tokens it would have used, and so that typing on inside the word leaves the prompt as it is.
    `history` is what the local cache reads, the nearest last: other files, what follows the cursor, what leads up to
    it; between them are breaks.
    """

    ids: Ids
    stub: bytes
    history: Ids
    head: int
    tail: int
    typed: int


def in_order(template: Template, head: Ids, tail: Ids, typed: Ids) -> Ids:
    """The ids of `PREFIX head SUFFIX tail MIDDLE typed`, or as the template orders them.

    FIM's and SPM's orders leave typed or head empty.
    """
    parts = [_ids(template.prefix), head, _ids(template.suffix), tail]
    if template.tail_first:
        parts = parts[2:] + parts[:2]
    return np.concatenate((_ids(template.bos), *parts, _ids(template.middle), typed))


def _ids(marker: tuple[int, ...]) -> Ids:
    return np.array(marker, dtype=np.int32)


def build(
    tokenizer: Tokenizer, template: Template, head: str, tail: str, typed: str, around: Surroundings = NOTHING
) -> Prompt:
    """Put the prompt together; a pure function of its texts, whatever was built before."""
    done, stub = heal(tokenizer, typed)
    return assemble(tokenizer, template, head, tail, done, stub, around)


def assemble(
    tokenizer: Tokenizer,
    template: Template,
    head: str,
    tail: str,
    typed: str,
    stub: str = "",
    around: Surroundings = NOTHING,
) -> Prompt:
    """Put the prompt together as it is: typed is not healed, `stub` was taken out of it before."""
    h, t, y = tokenizer.encode(head and template.lead + head), tokenizer.encode(tail), tokenizer.encode(typed)
    return Prompt(
        ids=in_order(template, h, t, y),
        stub=stub.encode("utf-8", "replace"),
        history=_history(tokenizer, around, t, np.concatenate((h, y))),
        head=len(h),
        tail=len(t),
        typed=len(y),
    )


def _history(tokenizer: Tokenizer, around: Surroundings, tail: Ids, now: Ids) -> Ids:
    others = [part for text in around.others for part in (tokenizer.encode(text), BREAK)]
    before, after = tokenizer.encode(around.before), tokenizer.encode(around.after)
    return np.concatenate((*others, tail, after, BREAK, before, now))


def heal(tokenizer: Tokenizer, typed: str) -> tuple[str, str]:
    """Split typed into what stays in the prompt and the stub, the end that may come to be spelled otherwise."""
    cut = tokenizer.unfinished(typed)
    if len(typed[cut:].encode("utf-8", "replace")) > LONGEST_STUB:
        return typed, ""
    return typed[:cut], typed[cut:]
