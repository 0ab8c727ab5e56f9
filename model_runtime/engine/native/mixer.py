"""Mixes counts into a distribution, chooses a token and finds a draft by the compiled part."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import addressof, c_char, c_int64
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.counts.lookup import NOTHING, Followers
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.native.library import NativeBuffers, NativeFollowers, NativeShares
from model_runtime.ids import Ids

PADDING = 16  # numbers that the compiled part may write beyond a vocabulary
LEAST_WEIGHTS = 1 << 12

Floats = npt.NDArray[np.float32]
Floats64 = npt.NDArray[np.float64]


class Picked(NamedTuple):
    """A chosen token with its chance, and the likely tokens [n] with theirs [n] and the model's part of these [n].

    The repository adds `gains` [m] to the chances of `tokens` [m]; all is the model's unless `is_mixed`.
    """

    token: int
    chance: float
    likely: Ids
    chances: Floats
    model: Floats
    tokens: Ids
    gains: Floats
    is_mixed: bool


class Recency(NamedTuple):
    """Weights of places, the nearest first, and their address."""

    weights: Floats64
    at: int

    @classmethod
    def of(cls, weights: Floats64) -> Recency:
        """Return weights with their address."""
        return cls(weights, address(weights))


class _Scratch(threading.local):
    """Buffers of each thread, whose addresses are known: asking numpy for them takes longer than a step."""

    def __init__(self) -> None:
        self.buffers, self.followers, self.found = NativeBuffers(), NativeFollowers(), (c_int64 * 3)()
        self.buffers_at, self.followers_at = addressof(self.buffers), addressof(self.followers)
        self.found_at = addressof(self.found)
        self._vocab = self._history = self._gains = -1

    def prepare(self, history: int, recency: Recency, following: Followers, vocab: int) -> None:
        """Make room for a history and a vocabulary, and set the repository's followers."""
        self._recency = recency  # which another thread may replace by a longer one
        buffers, followers = self.buffers, self.followers
        if vocab > self._vocab:
            self._vocab, size = vocab, vocab + PADDING
            self.floats, self.likely = np.zeros((4, size), dtype=np.float32), np.zeros(size, dtype=np.int32)
            _, self.chances, self.likely_chances, self.likely_model = self.floats
            buffers.values, buffers.chances, buffers.likely_chances, buffers.likely_model = map(address, self.floats)
            buffers.likely = address(self.likely)
        if history > self._history:
            self._history = 2 * history
            self._places = np.zeros(self._history, dtype=np.int32), np.zeros(self._history, dtype=np.uint8)
            buffers.places, buffers.lengths = map(address, self._places)
        if (count := len(following.tokens)) > self._gains:
            self._gains = 2 * count
            self.gains = np.zeros(self._gains, dtype=np.float32)
            buffers.gains = address(self.gains)
        buffers.recency, followers.size = recency.at, count
        if count:
            followers.tokens, followers.lengths, followers.counts = map(address, following[:3])
            followers.least = following.least


_scratch = _Scratch()


class NativeMixer:
    """Mixes by the shares of one n-gram cache. On any thread."""

    def __init__(
        self,
        library: ctypes.CDLL,
        shares: Sequence[float],
        memory_shares: Sequence[float],
        recency: Callable[[int], Floats64],
    ) -> None:
        """Take the shares by length of match; `recency(count)` returns the weights of the `count` nearest places."""
        self._mix, self._pick = library.engine_mix, library.engine_pick
        self._shares = np.array(shares, dtype=np.float64), np.array(memory_shares, dtype=np.float64)
        self._by = NativeShares(*(each.ctypes.data for each in self._shares), len(shares), len(memory_shares))
        self._by_at, self._recency_of = addressof(self._by), recency
        self._mixes_counts = any(memory_shares)
        self._recency = Recency.of(recency(LEAST_WEIGHTS))

    def mix(
        self, probabilities: Floats, history: Ids, counts: CountsView | None
    ) -> tuple[Floats, float, Ids, Floats]:
        """Return the mixed chances [vocab], the model's share, the repository's tokens [m], and what each gains."""
        following = self._following(history, counts)
        history = np.ascontiguousarray(history, dtype=np.int32)
        values = np.ascontiguousarray(probabilities, dtype=np.float32)
        buffers, vocab = self._prepared(history, following, len(values)), len(values)
        at = buffers.followers_at, address(values), vocab, buffers.buffers_at
        self._mix(self._by_at, address(history), len(history), *at)
        gains = buffers.gains[: len(following.tokens)].copy()
        return buffers.chances[:vocab].copy(), buffers.buffers.left, following.tokens, gains

    def pick(self, logits: int, vocab: int, history: Ids, counts: CountsView | None, fitting: Ids | None) -> Picked:
        """Choose the likeliest token by `vocab` logits (fp32) at an address, among `fitting` ones if given."""
        following = self._following(history, counts)
        history = np.ascontiguousarray(history, dtype=np.int32)
        buffers = self._prepared(history, following, vocab)
        among, few = (None, 0) if fitting is None else (address(fitting), len(fitting))
        at = buffers.followers_at, logits, vocab, among, few, buffers.buffers_at
        self._pick(self._by_at, address(history), len(history), *at)
        found, count = buffers.buffers, buffers.buffers.likely_count
        likely, chances = buffers.likely[:count].copy(), buffers.likely_chances[:count].copy()
        model, gains = buffers.likely_model[:count].copy(), buffers.gains[: len(following.tokens)].copy()
        chance, is_mixed = buffers.chances.item(found.token), bool(found.is_mixed)
        return Picked(found.token, chance, likely, chances, model, following.tokens, gains, is_mixed)

    def _following(self, history: Ids, counts: CountsView | None) -> Followers:
        """Return what followed the history's end in the repository, if that has a share in the mixture."""
        return counts.followers(history) if counts is not None and self._mixes_counts else NOTHING

    def _prepared(self, history: Ids, following: Followers, vocab: int) -> _Scratch:
        recency = self._recency
        if len(recency.weights) <= len(history):
            self._recency = recency = Recency.of(self._recency_of(2 * len(history)))
        _scratch.prepare(len(history), recency, following, vocab)
        return _scratch


def find_draft(library: ctypes.CDLL, history: Ids, most: int, longest: int) -> tuple[Ids, int]:
    """Return at most `longest` tokens after the nearest of the longest matches up to `most`, and its length."""
    history = np.ascontiguousarray(history, dtype=np.int32)
    library.engine_draft(address(history), len(history), most, longest, _scratch.found_at)
    length, at, size = _scratch.found
    return history[at : at + size], length


def address(array: npt.NDArray[np.generic]) -> int:
    """Return where the numbers of an array lie side by side."""
    try:
        return addressof(c_char.from_buffer(array.data))  # an eighth of the time that numpy's own way takes
    except (TypeError, ValueError):  # it cannot be written to, or is empty
        return array.ctypes.data
