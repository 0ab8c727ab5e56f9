"""Drafts of the next tokens, verified in one pass: the old suggestion, or what followed the same tokens elsewhere.

Prompt lookup, as in https://github.com/apoorvumang/prompt-lookup-decoding; the length of a draft follows from what
passes cost on this machine and how often drafts were right.
"""

from __future__ import annotations

import numpy as np

from model_runtime.counts.view import MemoryView
from model_runtime.decoder.pass_costs import PassCosts
from model_runtime.engine.native import library as c
from model_runtime.engine.native.mixer import find_draft
from model_runtime.engine.ngram_cache import matches
from model_runtime.ids import Ids

LONGEST_MATCH = 8  # tokens; longer matches are no better
LONGEST_DRAFT = 15  # tokens of one draft
INITIAL_HIT_RATE = 0.5  # how often drafted tokens are right, before any was tried
HIT_RATE_DECAY = 0.9  # weight of the hit rate so far when a drafted token is recorded
HIT_RATE_RECOVERY = 0.01  # share of the way back to the initial rate whenever a kind is not tried
EXPECTED, FROM_MEMORY = LONGEST_MATCH + 1, LONGEST_MATCH + 2  # kinds of drafts; smaller ones are lengths of matches
NO_DRAFT = np.zeros(0, dtype=np.int32)


class Drafts:
    """Proposes drafts and learns how often they are right, by their kind.

    A kind is the length of the match that a draft comes from; an expected text and the memory are kinds of their own.
    Drafts change the cost of an answer, never its tokens.
    """

    def __init__(self) -> None:
        """Start with the same rate for every kind."""
        self._hits = np.full(FROM_MEMORY + 1, INITIAL_HIT_RATE)

    def propose(
        self, history: Ids, expected: Ids, costs: PassCosts, memory: MemoryView | None = None
    ) -> tuple[Ids, int]:
        """Return a draft (perhaps empty) of what follows the history, and its kind; `expected` is tried first.

        Then comes the history itself or the memory, whichever was right more often.
        """
        draft = self._profitable(expected, EXPECTED, costs)
        if len(draft):
            return draft, EXPECTED
        draft, kind = lookup(history)
        if memory is not None and (not len(draft) or self._hits[FROM_MEMORY] > self._hits[kind]):
            remembered = self._profitable(memory.draft(history, LONGEST_DRAFT), FROM_MEMORY, costs)
            if len(remembered):
                return remembered, FROM_MEMORY
        return self._profitable(draft, kind, costs), kind

    def _profitable(self, draft: Ids, kind: int, costs: PassCosts) -> Ids:
        """Return as much of a draft as pays; a kind that does not pay recovers slowly, so that it is tried again."""
        size = costs.best_draft_length(float(self._hits[kind]), min(len(draft), LONGEST_DRAFT))
        if len(draft) and not size:
            self._hits[kind] += HIT_RATE_RECOVERY * (INITIAL_HIT_RATE - self._hits[kind])
        return draft[:size]

    def record(self, kind: int, came_true: bool) -> None:
        """Record whether a drafted token was right, given that those before it were."""
        self._hits[kind] = HIT_RATE_DECAY * self._hits[kind] + (1 - HIT_RATE_DECAY) * came_true


def lookup(history: Ids) -> tuple[Ids, int]:
    """Return what followed the longest, then nearest match of the history's end, and the length of that match."""
    if not isinstance(lib := c.library(), str):
        return find_draft(lib, history, LONGEST_MATCH, LONGEST_DRAFT)
    places, lengths = matches(history, LONGEST_MATCH)
    if not len(places):
        return NO_DRAFT, 0
    longest = int(lengths.max())
    at = int(places[lengths == longest][-1]) + 1
    following = history[at : at + LONGEST_DRAFT]
    breaks = np.flatnonzero(following < 0)
    return (following[: breaks[0]] if len(breaks) else following), longest


def advance(expected: Ids, token: int) -> Ids:
    """Return what is expected after a token: what follows it in `expected`, else all but the first token."""
    if not len(expected) or expected[0] == token:  # as nearly always
        return expected[1:]
    found = np.flatnonzero(expected == token)
    return expected[int(found[0]) + 1 :] if len(found) else expected[1:]
