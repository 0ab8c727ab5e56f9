"""The memory of counts: an immutable snapshot of documents, and what becomes of it when some change.

Its segments are never changed. The documents that left one are counted by segments of their own, which are taken off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from model_runtime.counts.lookup import Part
from model_runtime.counts.segment import MOST_TOKENS, MemoryDocument, Segment, build_segment
from model_runtime.counts.view import MemoryView

VERSIONS = 1 << 128
MOST_SEGMENTS = 8  # from which a merge pays; each costs a look-up less than a microsecond
MOST_GONE = 0.25  # share of tokens that are taken off from which a merge pays
QUICK = 1 << 17  # tokens that a change indexes again to keep segments few: some 50 ms
MOST_MASKS = 32  # documents left out by recent requests whose segments are kept
MOST_VIEWS = 8

Held = tuple[Segment, int]  # a segment, and the number of a document in it


class _Gone(NamedTuple):
    """A segment of documents that are to be taken off, and where they are counted."""

    segment: Segment
    held: frozenset[Held]


class _Masks:
    """Segments of single documents, the most recently used last. Shared by a memory and those that came of it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bytes], Segment] = {}  # by path and digest

    def segment(self, held: Held) -> Segment:
        segment, number = held
        key = segment.documents[number]
        self._kept[key] = kept = self._kept.pop(key, None) or build_segment([segment.document(number)])
        while len(self._kept) > MOST_MASKS:
            self._kept.pop(next(iter(self._kept)), None)
        return kept


class _State(NamedTuple):
    segments: tuple[Segment, ...]
    gone: tuple[_Gone, ...]
    held: Mapping[str, Held]
    version: int


_NOTHING = _State((), (), {}, 0)


class Memory:
    """An immutable snapshot: counts over a set of documents. On any thread.

    `version` is a hash of the set of (path, digest): a sum, so that the documents of a view can be taken off.
    """

    def __init__(self, state: _State = _NOTHING, masks: _Masks | None = None) -> None:
        """Start without documents."""
        self.version = state.version
        self._segments, self._gone, self._held = state.segments, state.gone, state.held
        self._masks, self._views = masks or _Masks(), dict[frozenset[str], MemoryView]()

    @property
    def paths(self) -> Mapping[str, bytes]:
        """The digest of each document by its path."""
        return {path: segment.documents[number][1] for path, (segment, number) in self._held.items()}

    @cached_property  # each key asks
    def tokens(self) -> int:
        """Number of tokens of all documents."""
        return sum(segment.length(number) for segment, number in self._held.values())

    @property
    def bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(segment.bytes for segment in (*self._segments, *(gone.segment for gone in self._gone)))

    @property
    def needs_merge(self) -> bool:
        """Whether look-ups would be faster, or the memory smaller, once merged."""
        gone = sum(gone.segment.tokens for gone in self._gone)
        segments = len(self._segments) + len(self._gone)
        return segments > MOST_SEGMENTS or gone > MOST_GONE * sum(segment.tokens for segment in self._segments)

    def with_changes(self, removed: Collection[str], added: Sequence[MemoryDocument]) -> Memory:
        """Return a memory without some documents and with others, which replace those of the same path.

        Takes as long as the changed documents are large, and indexes some small segments again.
        """
        new = {document.path: document for document in added if self._digest(document.path) != document.digest}
        left = {path for path in (*removed, *new) if path in self._held}
        left -= {document.path for document in added} - new.keys()
        if not new and not left:
            return self
        held = {path: each for path, each in self._held.items() if path not in left}
        version = self.version - sum(map(self._number, left))
        version += sum(_hash(document.path, document.digest) for document in new.values())
        kept, absorbed = self._absorbed(held, sum(len(document.ids) for document in new.values()))
        documents = [*new.values(), *(held[path][0].document(held[path][1]) for path in absorbed)]
        segments = (*kept, *_segments(documents))
        held |= _places(segments[len(kept) :])
        state = _State(segments, self._still_gone(kept, held), held, version % VERSIONS)
        return Memory(state, self._masks if self._held else None)  # the empty one is shared by all

    def merged(self) -> Memory:
        """Return the same documents in as few segments as can hold them; long, without the GIL."""
        documents = [segment.document(number) for _, (segment, number) in sorted(self._held.items(), key=_by_path)]
        segments = tuple(_segments(documents))
        return Memory(_State(segments, (), _places(segments), self.version), self._masks)

    def without(self, paths: Iterable[str]) -> MemoryView:
        """Return what a request sees that reads some documents directly. Cheap."""
        masked = frozenset(path for path in paths if path in self._held)
        if (view := self._views.get(masked)) is None:
            version = (self.version - sum(map(self._number, masked))) % VERSIONS
            while len(self._views) >= MOST_VIEWS:
                self._views.pop(next(iter(self._views)), None)
            self._views[masked] = view = MemoryView(version, lambda: self._parts(masked))
        return view

    def _digest(self, path: str) -> bytes | None:
        held = self._held.get(path)
        return held[0].documents[held[1]][1] if held else None

    def _number(self, path: str) -> int:
        segment, number = self._held[path]
        return _hash(*segment.documents[number])

    def _parts(self, masked: frozenset[str]) -> list[Part]:
        """Return the segments of a view: those that count, those of documents that left, and of those left out."""
        left_out = [self._held[path] for path in sorted(masked)]
        hidden: dict[Segment, set[int]] = {segment: set() for segment in self._segments}
        for segment, number in (*(each for gone in self._gone for each in gone.held), *left_out):
            hidden[segment].add(number)
        parts = [Part(segment, 1, frozenset(numbers)) for segment, numbers in hidden.items()]
        parts += (Part(gone.segment, -1) for gone in self._gone)
        return parts + [Part(self._masks.segment(each), -1) for each in left_out]

    def _absorbed(self, held: Mapping[str, Held], size: int) -> tuple[list[Segment], list[str]]:
        """Return the segments to keep, and the documents of the others, which are small or have mostly left.

        A segment joins new ones of `size` tokens that have at least half of its own; so segments stay few.
        """
        living = {segment: 0 for segment in self._segments}
        for segment, number in held.values():
            living[segment] += segment.length(number) + 1
        kept = list[Segment]()
        for segment in sorted(self._segments, key=lambda segment: living[segment]):
            count = living[segment]
            if 2 * count < segment.tokens or (count <= 2 * size and size + count <= QUICK):
                size += count
            else:
                kept.append(segment)
        chosen = set(kept)
        return kept, [path for path, (segment, _) in held.items() if segment not in chosen]

    def _still_gone(self, segments: Sequence[Segment], held: Mapping[str, Held]) -> tuple[_Gone, ...]:
        """Return what is to be taken off the segments that were kept, so that `held` is left of them."""
        left = {(segment, number) for segment in segments for number in range(len(segment))}
        left -= set(held.values())
        kept = sorted((gone for gone in self._gone if gone.held <= left), key=lambda gone: gone.segment.tokens)
        left = left.difference(*(gone.held for gone in kept))
        size = sum(segment.length(number) for segment, number in left)
        while left and kept and kept[0].segment.tokens <= 2 * size:
            size += kept[0].segment.tokens
            left |= kept.pop(0).held
        order = [
            (segment, number) for segment in segments for number in range(len(segment)) if (segment, number) in left
        ]
        made, done = list[_Gone](), 0
        for segment in _segments([segment.document(number) for segment, number in order]):
            made.append(_Gone(segment, frozenset(order[done : done + len(segment)])))
            done += len(segment)
        return (*kept, *made)


def _segments(documents: Sequence[MemoryDocument]) -> Iterator[Segment]:
    """Yield segments of documents, in their order, as few as can hold them."""
    part, size = list[MemoryDocument](), 1
    for document in documents:
        if part and size + len(document.ids) + 1 > MOST_TOKENS:
            yield build_segment(part)
            part, size = [], 1
        part.append(document)
        size += len(document.ids) + 1
    if part:
        yield build_segment(part)


def _places(segments: Iterable[Segment]) -> dict[str, Held]:
    return {path: (segment, n) for segment in segments for n, (path, _) in enumerate(segment.documents)}


def _by_path(item: tuple[str, Held]) -> str:
    return item[0]


def _hash(path: str, digest: bytes) -> int:
    name = path.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(digest + name, digest_size=16).digest(), "little")


EMPTY = Memory()
