"""EFIM prompts: `PREFIX head SUFFIX tail MIDDLE typed` as token ids (arXiv 2505.21889), healed at the cursor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model_runtime.ids import Ids
from model_runtime.template import Template
from model_runtime.tokenizer import Tokenizer, fragments

LONGEST_STUB = 48  # characters; an unfinished word beyond this is no word, and is sent as it is


@dataclass(frozen=True)
class Prompt:
    """Token ids to compute, and the text that the first new tokens must spell.

    `stub` is the unfinished word at the cursor: taken out of the prompt so that the model may finish it with the
    tokens it would have used, and so that typing on inside the word leaves the prompt as it is.
    `history` is what the local cache reads: tail, a break, then head and typed, in the order of the document.
    """

    ids: Ids
    stub: bytes
    history: Ids
    head: int
    tail: int
    typed: int


def build(tokenizer: Tokenizer, template: Template, head: str, tail: str, typed: str) -> Prompt:
    """Put the prompt together; a pure function of its texts, whatever was built before."""
    done, stub = heal(tokenizer, typed)
    h, t, y = tokenizer.encode(head), tokenizer.encode(tail), tokenizer.encode(done)
    mark = np.array([[template.prefix], [template.suffix], [template.middle], [-1]], dtype=np.int32)
    return Prompt(
        ids=np.concatenate((mark[0], h, mark[1], t, mark[2], y)),
        stub=stub.encode("utf-8", "replace"),
        history=np.concatenate((t, mark[3], h, y)),
        head=len(h),
        tail=len(t),
        typed=len(y),
    )


def heal(tokenizer: Tokenizer, typed: str) -> tuple[str, str]:
    """Split typed into what stays in the prompt and the stub: the last pre-token, no longer than its line."""
    *_, last = fragments(typed) if typed else ("",)
    piece = len(typed) - len(last) + tokenizer.last_piece(last)
    cut = max(piece, typed.rfind("\n") + 1, typed.rfind("\r") + 1)
    if len(typed) - cut > LONGEST_STUB:
        return typed, ""
    return typed[:cut], typed[cut:]
