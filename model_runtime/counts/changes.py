"""The change of a snapshot's segments when some of its documents change.

Segments are never changed. Documents that left a segment are counted by separate segments, which are subtracted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from model_runtime.counts.segment import MOST_TOKENS, CountedDocument, Segment, build_segment

VERSIONS = 1 << 128
QUICK = 1 << 17  # tokens that a change indexes again to keep segments few: some 50 ms

Held = tuple[Segment, int]  # a segment, and the number of a document in it


class Gone(NamedTuple):
    """A segment of documents that are to be taken off, and where they are counted."""

    segment: Segment
    held: frozenset[Held]


class State(NamedTuple):
    """The segments of a snapshot, the segments subtracted from them, and where each document is held, by its path.

    `version` is a hash of the set of (path, digest): a sum, so that documents can be taken off.
    """

    segments: tuple[Segment, ...]
    gone: tuple[Gone, ...]
    held: Mapping[str, Held]
    version: int

    def number(self, path: str) -> int:
        """Return a document's part of the version."""
        segment, number = self.held[path]
        return _hash(*segment.documents[number])

    def digest(self, path: str) -> bytes | None:
        """Return a document's digest, None if it is not held."""
        held = self.held.get(path)
        return held[0].documents[held[1]][1] if held else None


NO_DOCUMENTS = State((), (), {}, 0)


def changed(state: State, removed: Collection[str], added: Sequence[CountedDocument]) -> State:
    """Return a state without some documents and with others, which replace documents of the same path.

    If that is no change, it is the same object. Takes as long as the changed documents are large, and indexes some
    small segments again.
    """
    new = {document.path: document for document in added if state.digest(document.path) != document.digest}
    left = {path for path in (*removed, *new) if path in state.held}
    left -= {document.path for document in added} - new.keys()
    if not new and not left:
        return state
    held = {path: each for path, each in state.held.items() if path not in left}
    version = state.version - sum(map(state.number, left))
    version += sum(_hash(document.path, document.digest) for document in new.values())
    kept, absorbed = _absorbed(state.segments, held, sum(len(document.ids) for document in new.values()))
    documents = [*new.values(), *(held[path][0].document(held[path][1]) for path in absorbed)]
    segments = (*kept, *_segments(documents))
    held |= _places(segments[len(kept) :])
    return State(segments, _still_gone(state.gone, kept, held), held, version % VERSIONS)


def merged(state: State) -> State:
    """Return the same documents in as few segments as can hold them; long, without the GIL."""
    documents = [segment.document(number) for _, (segment, number) in sorted(state.held.items(), key=itemgetter(0))]
    segments = tuple(_segments(documents))
    return State(segments, (), _places(segments), state.version)


def _absorbed(segments: Sequence[Segment], held: Mapping[str, Held], size: int) -> tuple[list[Segment], list[str]]:
    """Return the segments to keep, and the documents of the others, which are small or have mostly left.

    A segment joins new segments of `size` tokens that have at least half of its tokens; so segments stay few.
    """
    living = {segment: 0 for segment in segments}
    for segment, number in held.values():
        living[segment] += segment.length(number) + 1
    kept = list[Segment]()
    for segment in sorted(segments, key=lambda segment: living[segment]):
        count = living[segment]
        if 2 * count < segment.tokens or (count <= 2 * size and size + count <= QUICK):
            size += count
        else:
            kept.append(segment)
    chosen = set(kept)
    return kept, [path for path, (segment, _) in held.items() if segment not in chosen]


def _still_gone(before: Sequence[Gone], segments: Sequence[Segment], held: Mapping[str, Held]) -> tuple[Gone, ...]:
    """Return the segments to subtract from the kept segments, so that `held` remains."""
    left = {(segment, number) for segment in segments for number in range(len(segment))}
    left -= set(held.values())
    kept = sorted((gone for gone in before if gone.held <= left), key=lambda gone: gone.segment.tokens)
    left = left.difference(*(gone.held for gone in kept))
    size = sum(segment.length(number) for segment, number in left)
    while left and kept and kept[0].segment.tokens <= 2 * size:
        size += kept[0].segment.tokens
        left |= kept.pop(0).held
    order = [(segment, number) for segment in segments for number in range(len(segment)) if (segment, number) in left]
    made, done = list[Gone](), 0
    for segment in _segments([segment.document(number) for segment, number in order]):
        made.append(Gone(segment, frozenset(order[done : done + len(segment)])))
        done += len(segment)
    return (*kept, *made)


def _segments(documents: Sequence[CountedDocument]) -> Iterator[Segment]:
    """Yield segments of documents, in their order, as few as can hold them."""
    part, size = list[CountedDocument](), 1
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


def _hash(path: str, digest: bytes) -> int:
    name = path.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(digest + name, digest_size=16).digest(), "little")
