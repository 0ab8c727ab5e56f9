"""Guesses at the next tokens, verified in one pass: the old suggestion, or what followed the same words before.

Prompt lookup, as in https://github.com/apoorvumang/prompt-lookup-decoding; how far a guess goes is decided by what
passes cost on this machine and by how often guesses came true.
"""

from __future__ import annotations

import numpy as np

from model_runtime.engine.ngram_cache import matches
from model_runtime.engine.pass_costs import PassCosts
from model_runtime.ids import Ids

LONGEST_MATCH = 8  # tokens; longer matches are no better
LONGEST_DRAFT = 15  # tokens of one draft
INITIAL_HIT_RATE = 0.5  # how often guesses come true, before any was seen
HIT_RATE_DECAY = 0.9  # what one guess leaves of the experience before it
HIT_RATE_RECOVERY = 0.01  # of a kind's bad experience that is forgotten whenever it is not tried
NO_DRAFT = np.zeros(0, dtype=np.int32)


class Drafts:
    """Proposes drafts and learns how often they come true, by the length of the match that they come from.

    What is proposed changes the cost of an answer, never its tokens.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._hits = np.full(LONGEST_MATCH + 2, INITIAL_HIT_RATE)  # the last: an expected text

    def propose(self, history: Ids, expected: Ids, costs: PassCosts) -> tuple[Ids, int]:
        """A draft of what follows the history, perhaps none, and its kind; `expected` is what is thought to come."""
        draft, kind = self._profitable(expected, LONGEST_MATCH + 1, costs), LONGEST_MATCH + 1
        if not len(draft):
            draft, kind = lookup(history)
            draft = self._profitable(draft, kind, costs)
        return draft, kind

    def _profitable(self, draft: Ids, kind: int, costs: PassCosts) -> Ids:
        """As much of a draft as pays; a kind that does not is trusted a little more each time, to be tried again."""
        size = costs.best_draft_length(float(self._hits[kind]), min(len(draft), LONGEST_DRAFT))
        if len(draft) and not size:
            self._hits[kind] += HIT_RATE_RECOVERY * (INITIAL_HIT_RATE - self._hits[kind])
        return draft[:size]

    def record(self, kind: int, came_true: bool) -> None:
        """Take in whether a drafted token came true, where those before it had."""
        self._hits[kind] = HIT_RATE_DECAY * self._hits[kind] + (1 - HIT_RATE_DECAY) * came_true


def lookup(history: Ids) -> tuple[Ids, int]:
    """What followed the longest, then nearest match of the history's end, and the length of that match."""
    places, lengths = matches(history, LONGEST_MATCH)
    if not len(places):
        return NO_DRAFT, 0
    longest = int(lengths.max())
    at = int(places[lengths == longest][-1]) + 1
    following = history[at : at + LONGEST_DRAFT]
    breaks = np.flatnonzero(following < 0)
    return (following[: breaks[0]] if len(breaks) else following), longest


def advance(expected: Ids, token: int) -> Ids:
    """What is expected after a token: where the expected text goes on after it, else one token further on."""
    found = np.flatnonzero(expected == token)
    return expected[int(found[0]) + 1 :] if len(found) else expected[1:]
