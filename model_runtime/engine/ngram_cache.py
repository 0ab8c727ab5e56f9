"""Next-token counts of the user's own texts, interpolated with the model's distribution by match length.

Interpolation after Jelinek and Mercer, with the model at its base: the counts after places that match the history's
last token take a share of the mixture, those after places that match its last two tokens a share of the result, and
so on up to the longest match.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from model_runtime.errors import ModelError
from model_runtime.ids import Ids

LOCAL_CACHE_FILE = "local_cache.json"
MOST_SHARES = 64
MOST_HALVINGS = 64  # a place farther back than this many half-lives counts as if it stood there

Indices = npt.NDArray[np.int64]
PlaceWeights = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NgramCache:
    """How next-token counts are mixed in; the figures are fitted to one model and stored in its folder.

    `shares[n - 1]` is the share of counts after matches of n tokens or more, in the mixture with everything shorter.
    `half_life` is the number of tokens after which an occurrence counts half.
    """

    shares: tuple[float, ...]
    half_life: float

    def mix(self, probabilities: npt.NDArray[np.float32], history: Ids) -> npt.NDArray[np.float32]:
        """Mix the model's [vocab] probabilities with what followed earlier occurrences of the history's end.

        `history` [n] are token ids, the last one the nearest; a negative id is a break that no match crosses. A
        pure function: the same texts give the same mixture, whatever was cached.
        """
        places, lengths = matches(history, len(self.shares))
        if not len(places):
            return probabilities
        weights = recency(places, len(history), self.half_life)
        left, gains = self._gains(np.bincount(lengths, weights).astype(np.float64))
        mixed = probabilities * np.float32(left)
        np.add.at(mixed, history[places + 1], (weights * gains[lengths]).astype(np.float32))
        return mixed

    def _gains(self, weights: PlaceWeights) -> tuple[float, PlaceWeights]:
        """Return the model's share, and what a place of weight 1 gains by match length, as `weights` are.

        The longest match takes its share of the whole, shorter ones of what the longer ones left.
        """
        totals = np.cumsum(weights[::-1])[:-1]  # of the longest matches, of those and the next shorter, ...
        shares = np.array(self.shares[len(totals) - 1 :: -1])
        left = np.cumprod(1.0 - shares)
        taken = shares * np.concatenate(([1.0], left[:-1])) / totals
        return float(left[-1]), np.concatenate(([0.0], np.cumsum(taken[::-1])))

    def without_model(self) -> NgramCache:
        """Return a cache that replaces the model's distribution wherever there are counts."""
        return replace(self, shares=(1.0, *self.shares[1:]))

    def to_json(self) -> str:
        """Return the text of the file that `read_ngram_cache` reads."""
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


def read_ngram_cache(folder: Path) -> NgramCache | None:
    """Read the figures fitted to the model in a folder, or None if it has none; ModelError if they are damaged."""
    path = folder / LOCAL_CACHE_FILE
    try:
        raw: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    fields = cast(dict[str, Any], raw) if isinstance(raw, dict) else {}
    shares, half_life = fields.get("shares"), fields.get("half_life")
    if not _are_shares(shares) or not _is_number(half_life, 1.0, 1e9):
        raise ModelError(f"{path} holds no fitted local cache: fetch the model again")
    return NgramCache(tuple(map(float, cast(list[float], shares))), float(cast(float, half_life)))


def _are_shares(value: object) -> bool:
    parts = cast(list[object], value if isinstance(value, list) else [])
    return 0 < len(parts) <= MOST_SHARES and all(_is_number(part, 0.0, 1.0) for part in parts)


def _is_number(value: object, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= cast(float, value) <= most
