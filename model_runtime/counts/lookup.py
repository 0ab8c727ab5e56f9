"""Looks a history up in segments: what followed its longest matches, in numpy. The compiled part does the same."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from model_runtime.counts.segment import LEAST, MOST, Numbers, Segment
from model_runtime.ids import Ids

MOST_PLACES = 1024  # of a match length; one with more says little that longer ones do not, and takes long to count
LONGEST_DRAFT = 64  # tokens
TOKEN_BITS = 24
NO_IDS = np.zeros(0, dtype=np.int32)


class Followers(NamedTuple):
    """What followed the matches of a history's end: tokens [m], match lengths [m] and counts [m], by (length, token).

    A match has exactly the length, save that `MOST` stands for longer ones, too. Lengths below `least` are left out.
    """

    tokens: Ids
    lengths: Ids
    counts: Ids
    least: int = LEAST


class SignedSegment(NamedTuple):
    """A segment whose documents count or, if `sign` is -1, are taken off the counts of others.

    `hidden` are the numbers of the documents that are taken off.
    """

    segment: Segment
    sign: int = 1
    hidden: frozenset[int] = frozenset()


class Found(NamedTuple):
    """The places that match at least so far, as a range of a part's places."""

    part: SignedSegment
    start: int
    stop: int


NOTHING = Followers(NO_IDS, NO_IDS, NO_IDS)


def last_tokens(history: Ids) -> Ids:
    """Return what can be matched of a history [n], the nearest token first: at most `MOST`, up to a break."""
    nearest = history[-MOST:][::-1]
    breaks = np.flatnonzero(nearest < 0)
    return nearest[: breaks[0]] if len(breaks) else nearest


def descend(parts: Sequence[SignedSegment], nearest: Ids) -> tuple[list[Found], int]:
    """Return the places of matches that are counted, and the least length of these."""
    wanted = tuple(nearest.tolist())
    found = [Found(part, 0, part.segment.size) for part in parts]
    for length in range(LEAST, len(wanted) + 1):
        found = [_narrowed(each, wanted[:length]) for each in found]
        size = sum(part.sign * (stop - start) for part, start, stop in found)
        if size <= MOST_PLACES or length == MOST:
            return found, length
    return [], min(max(LEAST, len(wanted) + 1), MOST)


def count_followers(parts: Sequence[SignedSegment], nearest: Ids) -> Followers:
    """Count what followed the matches of a history's end, whose last tokens are `nearest`."""
    found, least = descend(parts, nearest)
    keys, signs = list[Numbers](), list[Numbers]()
    for each in found:
        _, lengths, tokens = matched(each, nearest)
        keys.append(lengths << TOKEN_BITS | tokens)
        signs.append(np.full(len(tokens), each.part.sign))
    if not keys:
        return NOTHING._replace(least=least)
    distinct, where = np.unique(np.concatenate(keys), return_inverse=True)
    counts = np.bincount(where, np.concatenate(signs), len(distinct)).astype(np.int32)
    distinct, counts = distinct[counts != 0].astype(np.int32), counts[counts != 0]
    return Followers(distinct & (1 << TOKEN_BITS) - 1, distinct >> TOKEN_BITS, counts, least)


class Counter:
    """Counts over some segments. On any thread."""

    def __init__(self, parts: Sequence[SignedSegment]) -> None:
        """Keep the parts."""
        self._parts = parts

    def followers(self, tail: Ids) -> Followers:
        """Count what followed the matches of a history's last tokens."""
        return count_followers(self._parts, last_tokens(tail))

    def draft(self, tail: Ids, length: int, token: int, most: int) -> Ids:
        """Return at most `most` tokens that followed the first match of a length that a token follows."""
        return find_draft(self._parts, last_tokens(tail), length, token, most)


def find_draft(parts: Sequence[SignedSegment], nearest: Ids, length: int, token: int, most: int) -> Ids:
    """Return at most `most` tokens that followed the first match of a length that a token follows."""
    for found in descend(parts, nearest)[0]:
        for place in _saying(found, nearest, token, length):
            ids = found.part.segment.ids(place + 1, min(place + 1 + most, found.part.segment.tokens))
            breaks = np.flatnonzero(ids < 0)
            return ids[: breaks[0]] if len(breaks) else ids
    return NO_IDS


def neighbours(parts: Sequence[SignedSegment], ids: Ids, most: int) -> Iterator[tuple[int, int]]:
    """Yield the tokens before and after places where documents that count have these in a row.

    Before it may be a break, -1; places before a break are left out. Of each segment, at most `most` are looked at.
    """
    nearest = tuple(ids[::-1].tolist())
    for part in parts:
        if part.sign > 0:
            segment, start, stop = part.segment, *_narrowed(Found(part, 0, part.segment.size), nearest)[1:]
            places = segment.places(start, min(stop, start + most))
            shown = ~np.isin(segment.numbers(places), [*part.hidden])
            around = (at_places(segment, places[shown] + each).tolist() for each in (-len(ids), 1))
            yield from zip(*around, strict=True)


def _saying(found: Found, nearest: Ids, token: int, length: int) -> Iterator[int]:
    """Yield the places of documents that count where a token follows a match of a length."""
    if found.part.sign < 0:
        return
    places, lengths, tokens = matched(found, nearest)
    places = places[(lengths == length) & (tokens == token)]
    for place, number in zip(places.tolist(), found.part.segment.numbers(places).tolist(), strict=True):
        if number not in found.part.hidden:
            yield place


def matched(found: Found, nearest: Ids) -> tuple[Numbers, Numbers, Numbers]:
    """Return the places, the length of the match at each, and the token that follows it."""
    segment = found.part.segment
    places = segment.places(found.start, found.stop)
    lengths = np.zeros(len(places), dtype=np.int64)
    alike = np.arange(len(places))
    for back, token in enumerate(nearest.tolist()):  # a break stands before the first document: no place is below 0
        alike = alike[at_places(segment, places[alike] - back) == token]
        lengths[alike] += 1
    return places, lengths, at_places(segment, places + 1)


def at_places(segment: Segment, places: Numbers) -> Numbers:
    """Return the token at each place; breaks are -1."""
    each = segment.raw.reshape(-1, segment.width)[places].astype(np.int64)
    tokens = sum((each[:, byte] << 8 * byte for byte in range(segment.width)), np.zeros(len(places), dtype=np.int64))
    tokens[tokens == segment.pause] = -1
    return tokens


def _narrowed(found: Found, wanted: tuple[int, ...]) -> Found:
    """Return the range, within another range, of places that match these tokens, the nearest first."""
    segment = found.part.segment
    if max(wanted) >= segment.pause:
        return found._replace(stop=found.start)

    def before(index: int) -> tuple[int, ...]:
        end = segment.place(index) + 1
        tokens = segment.ids(max(0, end - len(wanted)), end)[::-1].tolist()
        return tuple(segment.pause if token < 0 else token for token in tokens)

    indices = range(found.start, found.stop)
    start = found.start + bisect_left(indices, wanted, key=before)
    return found._replace(start=start, stop=found.start + bisect_right(indices, wanted, key=before))
