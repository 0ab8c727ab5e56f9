"""Next-token counts after the longest suffix match in the document, mixed into the model's distribution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from model_runtime.ids import Ids

# Share of the counts by length of the match, in tokens; index 0 is no match: every token of the document counts.
SHARES = (0.05, 0.15, 0.35, 0.55, 0.7, 0.8, 0.85, 0.85, 0.9, 0.9, 0.9, 0.9, 0.95)
LONGEST_MATCH = len(SHARES) - 1
HALF_LIFE = 500.0  # tokens after which an occurrence counts half


def mix(probabilities: npt.NDArray[np.float32], history: Ids) -> npt.NDArray[np.float32]:
    """Mix the model's [vocab] probabilities with what followed earlier occurrences of the history's end.

    `history` [n] are token ids in document order; a negative id is a break that no match crosses. Pure: the same
    document gives the same mixture, whatever was cached.
    """
    length, places = longest_match(history)
    followers = history[places + 1]
    weights = np.exp2((places - len(history)) / HALF_LIFE)[followers >= 0]
    followers = followers[followers >= 0]
    if not len(followers):
        return probabilities
    mixed = probabilities * (1.0 - SHARES[length])
    np.add.at(mixed, followers, SHARES[length] * weights / weights.sum())
    return mixed


def longest_match(history: Ids) -> tuple[int, npt.NDArray[np.int64]]:
    """Length of the longest earlier occurrence of the history's end, up to 12, and where each of them ends."""
    places = np.arange(len(history) - 1)
    length = 0
    while length < min(LONGEST_MATCH, len(history)) and history[-1 - length] >= 0:
        earlier = places[places >= length]
        earlier = earlier[history[earlier - length] == history[-1 - length]]
        if not len(earlier):
            break
        places, length = earlier, length + 1
    return length, places
