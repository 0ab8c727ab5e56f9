"""What an answer depends on beside the text and the cursor."""

from __future__ import annotations

from typing import NamedTuple

from efim_ls.request import Request
from model_runtime.counts.view import MemoryView
from model_runtime.prompt.excerpts import NO_EXCERPTS, Excerpts


class Seen(NamedTuple):
    """What an answer was made with: a suggestion holds only for a request that sees the same.

    `others` is the hash of the other open texts, and `counts` the version of the repository's; the view itself would
    stay in memory with each suggestion. `excerpts` of other files stand in the prompt.
    """

    others: int
    counts: int | None
    excerpts: Excerpts = NO_EXCERPTS

    @classmethod
    def by(cls, request: Request) -> Seen:
        """Return what a request sees before its prompt is planned."""
        return cls(hash(request.others), version_of(request.memory))


def version_of(counts: MemoryView | None) -> int | None:
    """Return the version of a view of the repository, None if there is none."""
    return counts and counts.version
