"""Counts over a repository: an immutable snapshot of documents, and what a request sees of it.

That is its documents without those that the request reads directly.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from model_runtime.counts import lookup
from model_runtime.counts.changes import NO_DOCUMENTS, VERSIONS, Held, State, changed, merged
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
from model_runtime.counts.native.library import NativeAnswer, NativePart
from model_runtime.counts.segment import MOST, CountedDocument, Segment, build_segment
from model_runtime.ids import Ids

MOST_SEGMENTS = 8  # from which a merge pays; each costs a look-up less than a microsecond
MOST_GONE = 0.25  # share of tokens that are taken off from which a merge pays
MOST_MASKS = 32  # documents left out by recent requests whose segments are kept
MOST_VIEWS = 8
ENTRIES = 1 << 12  # that an answer has room for at first


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


class _Scratch(threading.local):
    """Room of each thread for a look-up, with its addresses: asking numpy for one takes longer than a look-up."""

    def __init__(self) -> None:
        self.draft = np.zeros(lookup.LONGEST_DRAFT, dtype=np.int32)
        self.draft_at = self.draft.ctypes.data
        self.make_room(ENTRIES, 64)

    def make_room(self, entries: int, parts: int) -> None:
        self.entries, self.parts = entries, parts
        self.out = np.zeros((3, entries), dtype=np.int32)
        self._work = np.zeros((2 * entries, 2), dtype=np.int32), np.zeros((parts, 2), dtype=np.int64)
        rows = (self.out.ctypes.data + row * self.out.strides[0] for row in range(3))
        self.answer = NativeAnswer(*rows, self._work[0].ctypes.data, entries, 0)
        self.answer_at, self.found_at = ctypes.addressof(self.answer), self._work[1].ctypes.data


_scratch = _Scratch()


class NativeCounter:
    """Counts over some segments. On any thread."""

    def __init__(self, library: ctypes.CDLL, parts: Sequence[SignedSegment]) -> None:
        """Keep the parts, whose arrays the compiled part reads."""
        self._count, self._draft = library.counts_count, library.counts_draft
        self._hidden = [_ranges(part) for part in parts]
        self._kept, self._size = parts, len(parts)
        self._parts = (NativePart * len(parts))(*map(_native, parts, self._hidden))
        self._at = ctypes.addressof(self._parts)

    def followers(self, tail: Ids) -> Followers:
        """Count what followed the matches of a history's last tokens."""
        room, ids, known, most = self._room(), tail.tobytes(), len(tail), lookup.MOST_PLACES
        while (count := self._count(self._at, self._size, ids, known, most, room.found_at, room.answer_at)) < 0:
            room.make_room(2 * room.entries, room.parts)
        tokens, lengths, counts = room.out[:, :count].copy()
        return Followers(tokens, lengths, counts, room.answer.least)

    def draft(self, tail: Ids, length: int, token: int, most: int) -> Ids:
        """Return at most `most` tokens that followed the first match of a length that a token follows."""
        room = self._room()
        size = self._draft(
            self._at, self._size, tail.tobytes(), len(tail), lookup.MOST_PLACES, room.found_at,
            length, token, room.draft_at, most,
        )  # fmt: skip
        return room.draft[:size].copy() if size else NO_IDS

    def _room(self) -> _Scratch:
        if self._size > _scratch.parts:
            _scratch.make_room(_scratch.entries, 2 * self._size)
        return _scratch


def _native(part: SignedSegment, hidden: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> NativePart:
    segment = part.segment
    raw, packed = segment.raw.ctypes.data, segment.packed.ctypes.data
    return NativePart(raw, packed, hidden.ctypes.data, segment.size, segment.width, part.sign, len(hidden))


def _ranges(part: SignedSegment) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the first token and the end of each hidden document, in order."""
    numbers = sorted(part.hidden)
    return np.stack((part.segment.starts[numbers], part.segment.starts[[number + 1 for number in numbers]]), 1)
