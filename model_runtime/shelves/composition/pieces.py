"""Finds the tokens of a sequence in others, at any offset (the spans of KVShare, arXiv 2503.16525)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.ids import Ids, common_prefix

SHORTEST = 16  # tokens of a piece: shorter ones are computed about as fast as they are looked for
MOST_PLACES = 8  # where a piece may begin in the sources, of which the longest is taken
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no token's share is lost in 64 bits

Hashes = npt.NDArray[np.uint64]


class MovedPiece(NamedTuple):
    """Tokens `new` to `new + length` of a sequence, which are `old` to `old + length` of the source of a number."""

    new: int
    old: int
    length: int
    source: int = 0


def find_pieces(ids: Ids, sources: Sequence[Ids], shortest: int = SHORTEST) -> list[MovedPiece]:
    """Return pieces of `ids` that occur in the sources, in order and apart; each is as long as the two agree.

    A piece has `shortest` tokens or more. It is found by hashes of every window of that length, at any offset. Of
    several places the longest is taken, of equally long places the one where the last piece ended.
    """
    windows = window_hashes(ids, shortest)
    places = _places(windows, [window_hashes(source, shortest) for source in sources])
    found, at = list[MovedPiece](), 0
    while at < len(windows):
        if piece := _longest(ids, sources, at, places.get(int(windows[at]), ()), found, shortest):
            found.append(piece)
            at = piece.new + piece.length
        else:
            at += 1
    return found


def window_hashes(ids: Ids, length: int) -> Hashes:
    """Return the polynomial hash of each window of `length` tokens, modulo 2**64; none if there is no window."""
    count = max(0, len(ids) - length + 1)
    hashes, tokens = np.zeros(count, dtype=np.uint64), ids.astype(np.uint64) + np.uint64(1)
    for i in range(length if count else 0):
        hashes = hashes * BASE + tokens[i : i + count]
    return hashes


def _places(windows: Hashes, sources: Sequence[Hashes]) -> dict[int, list[tuple[int, int]]]:
    """Return where in the sources each of the windows may begin, by hash, as (source, offset)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for number, hashes in enumerate(sources):
        for offset in np.flatnonzero(np.isin(hashes, windows)).tolist():
            found.setdefault(int(hashes[offset]), []).append((number, offset))
    return found


def _longest(
    ids: Ids,
    sources: Sequence[Ids],
    at: int,
    places: Sequence[tuple[int, int]],
    found: Sequence[MovedPiece],
    shortest: int,
) -> MovedPiece | None:
    """Return the longest piece that begins at `at`, or a little before if nothing else was found there."""
    last = found[-1] if found else MovedPiece(0, 0, 0, -1)
    shift = last.old - last.new
    going_on = [place for place in places if place[0] == last.source and place[1] - at == shift]
    best = None
    for source, old in [*going_on, *places[:MOST_PLACES]]:
        before = common_prefix(ids[last.new + last.length : at][::-1], sources[source][:old][::-1])
        length = before + common_prefix(ids[at:], sources[source][old:])
        if length >= shortest and (best is None or length > best.length):  # not where two hashes happen to be equal
            best = MovedPiece(at - before, old - before, length, source)
    return best
