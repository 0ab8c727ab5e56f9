"""Decides which experts stay in memory and which are read ahead: those that the scores of recent tokens speak for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.weights import Fp32

KEPT = 0.97  # of what an expert is worth, after each token of its layer: half of it after 23
NOWHERE = -1
WORTH_READING = 0.5  # as often as this a guess must have been right: a wrong one takes time and another's place

Numbers = npt.NDArray[np.intp]


class Schedule:
    """Which expert has which slot, and what each is worth.

    Guesses of what a layer wants next are judged when it has chosen, by rank among those that were not in memory.

    An expert's worth is the mean of its scores over its layer's tokens, the last ones counting most. A token has
    scores of those that it chooses alone.
    """

    def __init__(self, layers: int, count: int, chosen: int, slots: int) -> None:
        """Start with nothing in memory; a token chooses `chosen` of the `count` experts of each layer."""
        self.slots, self._chosen = slots, chosen
        self._worth = np.zeros((layers, count), np.float32)
        self._slot_of = np.full((layers, count), NOWHERE)
        self._owner = np.full(slots, NOWHERE)  # numbers of experts, counted through all layers
        self._guessed: dict[int, list[int]] = {}  # by layer, the likeliest first
        self._right = np.full(chosen, WORTH_READING, np.float32)  # the share of guesses that were, by rank

    def slot(self, layer: int, expert: int) -> int:
        """Return the slot of an expert; NOWHERE if it has none."""
        return int(self._slot_of[layer, expert])

    def absent(self, layer: int, experts: Iterable[int]) -> list[int]:
        """Return those experts of a layer that have no slot."""
        return [expert for expert in experts if self._slot_of[layer, expert] == NOWHERE]

    def count_tokens(self, layer: int, scores: Fp32, wanted: Numbers) -> None:
        """Count the scores [tokens, count] of a layer's tokens, which chose the experts `wanted`; judge guesses."""
        if guessed := self._guessed.pop(layer, [])[: self._chosen]:
            chosen = {*wanted.tolist()}
            was_right = np.array([expert in chosen for expert in guessed])
            self._right[: len(guessed)] += (1 - KEPT) * (was_right - self._right[: len(guessed)])
        tokens, count = scores.shape
        if (rest := count - self._chosen) > 0:
            scores = np.where(scores >= np.partition(scores, rest, axis=1)[:, rest, None], scores, 0)
        kept = KEPT**tokens
        self._worth[layer] = self._worth[layer] * kept + scores.mean(0) * (1 - kept)

    def guess(self, layer: int, scores: Fp32) -> list[int]:
        """Return the experts to read ahead for tokens that have these guessed scores [tokens, count] in a layer.

        They are not in memory; the likeliest come first.
        """
        most = self._chosen * len(scores)
        self._guessed[layer] = guessed = self.absent(layer, np.argsort(-scores.max(0), kind="stable")[:most].tolist())
        right = (self._right >= WORTH_READING).tolist()
        return [expert for rank, expert in enumerate(guessed) if right[min(rank, self._chosen - 1)]]

    def assign(self, layer: int, expert: int, held: Iterable[int]) -> int:
        """Give an expert the slot of the least valuable expert that is not `held`; return the slot."""
        worth = np.where(self._owner == NOWHERE, -1.0, self._worth.ravel()[self._owner])
        worth[list(held)] = np.inf
        slot = int(worth.argmin())
        self.release(slot)
        self._owner[slot] = layer * self._worth.shape[1] + expert
        self._slot_of[layer, expert] = slot
        return slot

    def release(self, slot: int) -> None:
        """Take a slot from its expert, if it has one."""
        if (owner := self._owner[slot]) != NOWHERE:
            self._slot_of.ravel()[owner] = NOWHERE
            self._owner[slot] = NOWHERE
