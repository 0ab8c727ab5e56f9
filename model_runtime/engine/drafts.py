"""Drafts of the next tokens, verified in one pass: the old suggestion, or what followed the same tokens elsewhere.

Prompt lookup, as in https://github.com/apoorvumang/prompt-lookup-decoding; the length of a draft follows from how
often drafts were right and from what passes cost on this machine. The costs also bound how wide a pass may be.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter

import numpy as np

from model_runtime.counts.snapshot import CountsView
from model_runtime.decoder.any_decoder import CHUNK
from model_runtime.engine.native import library as c
from model_runtime.engine.native.mixer import find_draft
from model_runtime.engine.ngrams import matches
from model_runtime.ids import Ids

LONGEST_MATCH = 8  # tokens; longer matches are no better
LONGEST_DRAFT = 15  # tokens of one draft
INITIAL_HIT_RATE = 0.5  # how often drafted tokens are right, before any was tried
HIT_RATE_DECAY = 0.9  # weight of the hit rate so far when a drafted token is recorded
HIT_RATE_RECOVERY = 0.01  # share of the way back to the initial rate whenever a kind is not tried
EXPECTED, FROM_COUNTS = LONGEST_MATCH + 1, LONGEST_MATCH + 2  # kinds of drafts; smaller ones are lengths of matches
NO_DRAFT = np.zeros(0, dtype=np.int32)
PASS_DECAY = 0.95  # weight of earlier passes each time one is recorded
DEFAULT_EXTRA_ROW_COST = 0.1  # cost of a further row of a small pass, in passes of one row, before any was timed
PREFILL_PASS_MS = 8.0  # milliseconds that a pass of a prompt should take: a newer request waits for its end
LEAST_CHUNK = 32  # rows of such a pass, even if it takes longer: narrower ones read the weights too often
LEAST_BACKGROUND_CHUNK = 4  # the same of one ahead of need
DECODE_ROWS = 16  # most rows of a decode step with a draft


class PassCosts:
    """What passes cost on this machine, learnt from timed ones.

    A decode step's time is taken for a linear function of its rows. Of wider passes, the time of a row of the last is
    kept: `row_seconds` is what a token of a prompt takes, None before any was timed. A pass over a prompt that is
    waited for has `chunk` rows at most, and one ahead of need `background_chunk`: as many as a keystroke can afford.
    """

    def __init__(self, chunk: int = CHUNK) -> None:
        """Start without measurements; `chunk` is the most rows of a prefill pass."""
        self._most = chunk
        self._sums = [0.0] * 5  # weights, rows, rows², ms, rows · ms
        self.row_seconds: float | None = None
        self.chunk, self.background_chunk = chunk, LEAST_BACKGROUND_CHUNK

    @contextmanager
    def timing(self, rows: int) -> Generator[None]:
        """Record the time of the pass that is made inside."""
        began = perf_counter()
        yield
        self.record(rows, (perf_counter() - began) * 1e3)

    def record(self, rows: int, ms: float) -> None:
        """Record the time of a pass."""
        if rows <= DECODE_ROWS:
            for at, term in enumerate((1.0, rows, rows * rows, ms, rows * ms)):
                self._sums[at] = PASS_DECAY * self._sums[at] + term
        if rows >= LEAST_BACKGROUND_CHUNK:
            ms_per_row = max(ms, 1e-3) / rows
            self.row_seconds = ms_per_row / 1e3
            affordable = min(self._most, int(PREFILL_PASS_MS / ms_per_row))
            self.background_chunk = max(LEAST_BACKGROUND_CHUNK, affordable)
            self.chunk = max(self.background_chunk, min(LEAST_CHUNK, self._most))

    @property
    def extra_row_cost(self) -> float:
        """Cost of one more row in a decode step, in passes of one row."""
        n, x, xx, y, xy = self._sums
        spread = n * xx - x * x
        if spread < 1e-6 * max(1.0, xx):
            return DEFAULT_EXTRA_ROW_COST
        slope = (n * xy - x * y) / spread
        one = (y - slope * (x - n)) / n
        return max(slope, 0.0) / one if one > 0 else DEFAULT_EXTRA_ROW_COST

    def best_draft_length(self, chance: float, most: int) -> int:
        """Return how many tokens to draft if each is right with this chance, given that those before it are.

        That is the number with the most tokens for the time of a pass.
        """
        best, rate, gain, each, cost = 0, 1.0, 1.0, 1.0, self.extra_row_cost
        for drafted in range(1, most + 1):
            each *= chance
            gain += each
            if gain / (1.0 + drafted * cost) > rate:
                best, rate = drafted, gain / (1.0 + drafted * cost)
        return best


class Drafts:
    """Proposes drafts and learns how often they are right, by their kind.

    A kind is the length of the match that a draft comes from; an expected text and the repository are separate
    kinds. Drafts change the cost of an answer, never its tokens.
    """

    def __init__(self) -> None:
        """Start with the same rate for every kind."""
        self._hits = np.full(FROM_COUNTS + 1, INITIAL_HIT_RATE)

    def propose(
        self, history: Ids, expected: Ids, costs: PassCosts, counts: CountsView | None = None
    ) -> tuple[Ids, int]:
        """Return a draft (perhaps empty) of what follows the history, and its kind; `expected` is tried first.

        Then comes the history itself or the repository, whichever was right more often.
        """
        draft = self._profitable(expected, EXPECTED, costs)
        if len(draft):
            return draft, EXPECTED
        draft, kind = lookup(history)
        if counts is not None and (not len(draft) or self._hits[FROM_COUNTS] > self._hits[kind]):
            remembered = self._profitable(counts.draft(history, LONGEST_DRAFT), FROM_COUNTS, costs)
            if len(remembered):
                return remembered, FROM_COUNTS
        return self._profitable(draft, kind, costs), kind

    def _profitable(self, draft: Ids, kind: int, costs: PassCosts) -> Ids:
        """Return as much of a draft as pays; a kind that does not pay recovers slowly, so that it is tried again."""
        if not len(draft):
            return draft
        size = costs.best_draft_length(float(self._hits[kind]), min(len(draft), LONGEST_DRAFT))
        if not size:
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
    """Return the tokens expected after a token: its followers in `expected`, else all but the first token."""
    if not len(expected) or expected[0] == token:  # as nearly always
        return expected[1:]
    found = np.flatnonzero(expected == token)
    return expected[int(found[0]) + 1 :] if len(found) else expected[1:]
