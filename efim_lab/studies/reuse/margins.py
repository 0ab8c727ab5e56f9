"""Writing in the Margins (arXiv 2408.14906): a note that the model writes about each excerpt stands for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from efim_lab.studies.reuse.policies.policy import Kept, StoredContext
from efim_lab.studies.reuse.subject import ReuseSubject, Target

ASKED = "# Summary:"  # a base model follows no instruction, but goes on with a comment
LONGEST_NOTE = 16  # tokens
NO_TARGET = Target(b"", "")


def margins(subject: ReuseSubject) -> Callable[[StoredContext, float], Kept]:
    """Return a policy that keeps a note of each excerpt, with its path, whatever the budget."""

    def policy(context: StoredContext, share: float) -> Kept:
        notes = [f"# {chunk.path}:{_note(subject, chunk.text)}\n" for chunk in context.chunks]
        ids = np.concatenate([subject.tokenizer.encode(note) for note in notes])
        _, traces = context.network.run(ids)
        return Kept([trace.kv for trace in traces], None, len(ids) / context.rows)

    return policy


def _note(subject: ReuseSubject, text: str) -> str:
    arena, tokens = subject.computed(subject.tokenizer.encode(text)), list[int]()
    ids = subject.tokenizer.encode(ASKED)
    while len(tokens) < LONGEST_NOTE:
        row = np.asarray(subject.decoder.forward(ids, arena))[0]
        token = subject.choose(row, tokens, NO_TARGET)
        if subject.ends(token):
            break
        tokens.append(token)
        ids = np.array([token], dtype=np.int32)
    return subject.tokenizer.decode(np.array(tokens, dtype=np.int32))
