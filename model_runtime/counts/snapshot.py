"""Counts over a repository: an immutable snapshot of documents, and what a request sees of it.

That is its documents without those that the request reads directly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from model_runtime.counts.changes import NO_DOCUMENTS, VERSIONS, Held, State, changed, merged
from model_runtime.counts.counter import NativeCounter
from model_runtime.counts.lookup import (
    LONGEST_DRAFT,
    MOST_PLACES,
    NO_IDS,
    NOTHING,
    Counter,
    Followers,
    SignedSegment,
    descend,
    last_tokens,
    matched,
    neighbours,
)
from model_runtime.counts.native import library as c
from model_runtime.counts.segment import MOST, CountedDocument, Segment, build_segment
from model_runtime.ids import Ids

MOST_SEGMENTS = 8  # from which a merge pays; each costs a look-up less than a microsecond
MOST_GONE = 0.25  # share of tokens that are taken off from which a merge pays
MOST_MASKS = 32  # documents left out by recent requests whose segments are kept
MOST_VIEWS = 8


class CountedPlace(NamedTuple):
    """Where a document says a token: after `length` matching tokens, at `offset` in its token ids."""

    path: str
    offset: int
    length: int


class CountsView:
    """Counts over a set of documents. Immutable; equal views say the same.

    `version` is a hash of the set of (path, digest).
    """

    def __init__(self, version: int, parts: Callable[[], Sequence[SignedSegment]]) -> None:
        """Count over `parts`, which are asked for when something is first looked up."""
        self.version = version
        self._make = parts
        self._last: tuple[bytes, Followers] = (b"", NOTHING)

    def __eq__(self, other: object) -> bool:
        """Return whether the documents are the same."""
        return isinstance(other, CountsView) and self.version == other.version

    def __hash__(self) -> int:
        """Return a hash of the documents."""
        return hash(self.version)

    def followers(self, history: Ids) -> Followers:
        """Count what followed the matches of a history's end."""
        tail = history[-MOST:]
        key, (known, found) = tail.tobytes(), self._last  # a draft and then a choice ask the same
        if key != known:
            found = self._counter.followers(tail)
            self._last = key, found
        return found

    def draft(self, history: Ids, most: int) -> Ids:
        """Return at most `most` tokens that followed one of the longest matches: the first with what follows most."""
        tokens, lengths, counts, _ = self.followers(history)
        if not len(tokens):
            return NO_IDS
        longest = int(lengths[-1])
        first = int(lengths.searchsorted(longest))
        token = int(tokens[first + counts[first:].argmax()])
        return self._counter.draft(history[-MOST:], longest, token, min(most, LONGEST_DRAFT))

    def places(self, history: Ids, token: int, most: int) -> list[CountedPlace]:
        """Return at most `most` places where a token follows a match of a history's end, the longest first."""
        nearest, found = last_tokens(history), list[CountedPlace]()
        for each in descend(self.parts, nearest)[0]:
            part = each.part
            if part.sign < 0:
                continue
            places, lengths, tokens = matched(each, nearest)
            follows = tokens == token
            numbers = part.segment.numbers(places[follows])
            offsets = places[follows] + 1 - part.segment.starts[numbers]
            found += (
                CountedPlace(part.segment.documents[number][0], offset, length)
                for number, offset, length in np.stack((numbers, offsets, lengths[follows]), 1).tolist()
                if number not in part.hidden
            )
        return sorted(found, key=lambda place: (-place.length, place.path, place.offset))[:most]

    def neighbours(self, ids: Ids) -> Iterator[tuple[int, int]]:
        """Yield the tokens before (-1 is a break) and after places where the documents have these in a row."""
        return neighbours(self.parts, ids, MOST_PLACES)

    def ids_of(self, path: str) -> Ids:
        """Return the token ids of a document."""
        documents = (
            part.segment.document(number)
            for part in self.parts
            for number, (name, _) in enumerate(part.segment.documents)
            if part.sign > 0 and name == path and number not in part.hidden
        )
        return next(documents).ids

    @cached_property
    def parts(self) -> Sequence[SignedSegment]:
        """The segments that count, and those that are taken off."""
        return self._make()

    @cached_property
    def _counter(self) -> Counter | NativeCounter:
        lib = c.library()
        return Counter(self.parts) if isinstance(lib, str) else NativeCounter(lib, self.parts)


class _Masks:
    """Segments of single documents, the most recently used last. Shared by counts and those that came of them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bytes], Segment] = {}  # by path and digest

    def segment(self, held: Held) -> Segment:
        segment, number = held
        key = segment.documents[number]
        self._kept[key] = kept = self._kept.pop(key, None) or build_segment([segment.document(number)])
        while len(self._kept) > MOST_MASKS:
            self._kept.pop(next(iter(self._kept)), None)
        return kept


class Counts:
    """An immutable snapshot: counts over a set of documents. On any thread.

    `version` is a hash of the set of (path, digest): a sum, so that the documents of a view can be taken off.
    """

    def __init__(self, state: State = NO_DOCUMENTS, masks: _Masks | None = None) -> None:
        """Start without documents."""
        self.version, self._state = state.version, state
        self._masks, self._views = masks or _Masks(), dict[frozenset[str], CountsView]()

    @property
    def paths(self) -> Mapping[str, bytes]:
        """The digest of each document by its path."""
        return {path: segment.documents[number][1] for path, (segment, number) in self._state.held.items()}

    @cached_property  # each key asks
    def tokens(self) -> int:
        """Number of tokens of all documents."""
        return sum(segment.length(number) for segment, number in self._state.held.values())

    @property
    def bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(segment.bytes for segment in (*self._state.segments, *(gone.segment for gone in self._state.gone)))

    @property
    def needs_merge(self) -> bool:
        """Whether look-ups would be faster, or the counts smaller, once merged."""
        gone = sum(gone.segment.tokens for gone in self._state.gone)
        segments = len(self._state.segments) + len(self._state.gone)
        return segments > MOST_SEGMENTS or gone > MOST_GONE * sum(segment.tokens for segment in self._state.segments)

    def with_changes(self, removed: Collection[str], added: Sequence[CountedDocument]) -> Counts:
        """Return counts without some documents and with others, which replace documents of the same path.

        Takes as long as the changed documents are large, and indexes some small segments again.
        """
        if (state := changed(self._state, removed, added)) is self._state:
            return self
        return Counts(state, self._masks if self._state.held else None)  # the empty one is shared by all

    def merged(self) -> Counts:
        """Return the same documents in as few segments as can hold them; long, without the GIL."""
        return Counts(merged(self._state), self._masks)

    def without(self, paths: Iterable[str]) -> CountsView:
        """Return what a request sees that reads some documents directly. Cheap."""
        masked = frozenset(path for path in paths if path in self._state.held)
        if (view := self._views.get(masked)) is None:
            version = (self.version - sum(map(self._state.number, masked))) % VERSIONS
            while len(self._views) >= MOST_VIEWS:
                self._views.pop(next(iter(self._views)), None)
            self._views[masked] = view = CountsView(version, lambda: self._parts(masked))
        return view

    def _parts(self, masked: frozenset[str]) -> list[SignedSegment]:
        """Return the segments of a view: counted documents, documents that left, and documents left out."""
        left_out = [self._state.held[path] for path in sorted(masked)]
        hidden: dict[Segment, set[int]] = {segment: set() for segment in self._state.segments}
        for segment, number in (*(each for gone in self._state.gone for each in gone.held), *left_out):
            hidden[segment].add(number)
        parts = [SignedSegment(segment, 1, frozenset(numbers)) for segment, numbers in hidden.items()]
        parts += (SignedSegment(gone.segment, -1) for gone in self._state.gone)
        return parts + [SignedSegment(self._masks.segment(each), -1) for each in left_out]


EMPTY = Counts()
