"""Next-token counts of the user's own texts, interpolated with the model's distribution by match length.

Interpolation after Jelinek and Mercer, with the model at its base: the counts after places that match the history's
last token take a share of the mixture, those after places that match its last two tokens a share of the result, and
so on up to the longest match.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from model_runtime.counts.lookup import NO_IDS, NOTHING
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.native import library as c
from model_runtime.engine.native.mixer import NativeMixer
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.regular_files import MIB, read_regular

NGRAMS_FILE = "local_cache.json"
MOST_SHARES = 64
MOST_HALVINGS = 64  # a place farther back than this many half-lives counts as if it stood there

Indices = npt.NDArray[np.int64]
PlaceWeights = npt.NDArray[np.float64]
Chances = npt.NDArray[np.float32]
NO_GAINS = np.zeros(0, dtype=np.float32)


class Mixture(NamedTuple):
    """The chance [vocab] of each token, and where it comes from.

    `model` is the share of the model's probabilities. `tokens` [m] are those that the repository has next, perhaps
    more than once, and `gains` [m] what each gains by it. The rest comes from the history's own counts.
    """

    chances: Chances
    model: float = 1.0
    tokens: Ids = NO_IDS
    gains: Chances = NO_GAINS


@dataclass(frozen=True)
class Ngrams:
    """How next-token counts are mixed in; the figures are fitted to one model and stored in its folder.

    `shares[n - 1]` is the share of counts after matches of n tokens or more, in the mixture with everything shorter.
    `half_life` is the number of tokens after which an occurrence counts half. `memory_shares` are the shares of the
    repository's counts, which do not age: they come before the history's own counts after matches of the same length.
    """

    shares: tuple[float, ...]
    half_life: float
    memory_shares: tuple[float, ...] = ()

    def mix(self, probabilities: Chances, history: Ids, counts: CountsView | None = None) -> Chances:
        """Mix the model's [vocab] probabilities with what followed earlier occurrences of the history's end.

        `history` [n] are token ids, the last one the nearest; a negative id is a break that no match crosses. A
        pure function: the same texts and counts give the same mixture, whatever was cached.
        """
        return self.mixture(probabilities, history, counts).chances

    def mixture(self, probabilities: Chances, history: Ids, counts: CountsView | None = None) -> Mixture:
        """Mix as `mix` does, and say where the chances come from."""
        if self.mixer:
            return Mixture(*self.mixer.mix(probabilities, history, counts))
        followers = counts.followers(history) if counts is not None and any(self.memory_shares) else NOTHING
        places, lengths = matches(history, len(self.shares))
        if not len(places) and not len(followers.tokens):
            return Mixture(probabilities)
        weights = recency(places, len(history), self.half_life)
        own, following = np.bincount(lengths, weights), np.bincount(followers.lengths, followers.counts)
        left, gains, memory_gains = self._gains(own.tolist(), following.tolist(), followers.least)
        mixed = probabilities * np.float32(left)
        np.add.at(mixed, history[places + 1], (weights * gains[lengths]).astype(np.float32))
        gained = (followers.counts * memory_gains[followers.lengths]).astype(np.float32)
        np.add.at(mixed, followers.tokens, gained)
        return Mixture(mixed, left, followers.tokens, gained)

    @cached_property
    def mixer(self) -> NativeMixer | None:
        """The compiled part that mixes with these figures, to the same bits; None if it is not there."""
        if isinstance(lib := c.library(), str) or len(self.shares) > MOST_SHARES:
            return None
        return NativeMixer(lib, self.shares, self.memory_shares, lambda n: recency(-np.arange(n), 0, self.half_life))

    def _gains(
        self, own: list[float], following: list[float], least: int
    ) -> tuple[float, PlaceWeights, PlaceWeights]:
        """Return the model's share, and by match length what a place of weight 1 and a count of the repository gain.

        `own` and `following` are the sums of weights and counts by length; the repository has none of lengths below
        `least`. Of each length, from the longest down, the history's own counts take their share of the rest,
        then the repository's do.
        """
        size = max(len(own), len(following))
        gains, memory_gains = np.zeros(size), np.zeros(size)
        left, weight, count = 1.0, 0.0, 0.0
        for length in range(size - 1, 0, -1):
            weight += own[length] if length < len(own) else 0.0
            count += following[length] if length < len(following) else 0.0
            if weight and length <= len(self.shares):
                gains[length] = left * self.shares[length - 1] / weight
                left *= 1.0 - self.shares[length - 1]
            if count and least <= length <= len(self.memory_shares):
                memory_gains[length] = left * self.memory_shares[length - 1] / count
                left *= 1.0 - self.memory_shares[length - 1]
        return left, gains.cumsum(), memory_gains.cumsum()

    def without_model(self) -> Ngrams:
        """Return a cache that replaces the model's distribution wherever there are counts."""
        return replace(self, shares=(1.0, *self.shares[1:]))

    def to_json(self) -> str:
        """Return the text of the file that `read_ngrams` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"


def matches(history: Ids, most: int) -> tuple[Indices, Indices]:
    """Return earlier places of the history's last token that something followed, and the length of each match.

    A match counts equal tokens, up to `most`, backwards from the place and from the history's end.
    """
    end = len(history) - 1
    if end < 1 or history[end] < 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    places = np.flatnonzero((history[:end] == history[end]) & (history[1:] >= 0))
    lengths = np.ones_like(places)
    alike = np.arange(len(places))
    for length in range(1, most):
        if not len(alike) or end < length or history[end - length] < 0:
            break
        before = places[alike] - length
        alike = alike[(history[before] == history[end - length]) & (before >= 0)]
        lengths[alike] += 1
    return places, lengths


def recency(places: Indices, now: int, half_life: float) -> PlaceWeights:
    """Return the weight of each place: halved for every `half_life` tokens that it lies back, never 0."""
    return np.exp2(-np.minimum((now - places) / half_life, MOST_HALVINGS))


def read_ngrams(folder: Path) -> Ngrams | None:
    """Read the figures fitted to the model in a folder, or None if it has none; ModelError if they are damaged."""
    path = folder / NGRAMS_FILE
    try:
        raw: object = json.loads(read_regular(path, MIB).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    fields = cast(dict[str, Any], raw) if isinstance(raw, dict) else {}
    shares, half_life = fields.get("shares"), fields.get("half_life")
    of_counts = fields.get("memory_shares", [])
    if not (shares and _are_shares(shares) and _is_number(half_life, 1.0, 1e9) and _are_shares(of_counts)):
        raise ModelError(f"{path} holds no fitted n-grams: fetch the model again")
    fitted, memory_shares = (tuple(map(float, cast(list[float], each))) for each in (shares, of_counts))
    return Ngrams(fitted, float(cast(float, half_life)), memory_shares)


def _are_shares(value: object) -> bool:
    parts = cast(list[object], value) if isinstance(value, list) else None
    return parts is not None and len(parts) <= MOST_SHARES and all(_is_number(part, 0.0, 1.0) for part in parts)


def _is_number(value: object, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= cast(float, value) <= most
