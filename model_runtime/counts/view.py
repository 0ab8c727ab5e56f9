"""What a request sees of the memory: its documents without those that the request reads directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from model_runtime.counts.lookup import (
    LONGEST_DRAFT,
    NO_IDS,
    NOTHING,
    Counter,
    Followers,
    Part,
    descend,
    last_tokens,
    matched,
)
from model_runtime.counts.native import library as c
from model_runtime.counts.native.counter import NativeCounter
from model_runtime.counts.segment import MOST
from model_runtime.ids import Ids


class MemoryPlace(NamedTuple):
    """Where a document says a token: after `length` matching tokens, at `offset` in its token ids."""

    path: str
    offset: int
    length: int


class MemoryView:
    """Counts over a set of documents. Immutable; equal views say the same.

    `version` is a hash of the set of (path, digest).
    """

    def __init__(self, version: int, parts: Callable[[], Sequence[Part]]) -> None:
        """Count over `parts`, which are asked for when something is first looked up."""
        self.version = version
        self._make = parts
        self._last: tuple[bytes, Followers] = (b"", NOTHING)

    def __eq__(self, other: object) -> bool:
        """Return whether the documents are the same."""
        return isinstance(other, MemoryView) and self.version == other.version

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

    def places(self, history: Ids, token: int, most: int) -> list[MemoryPlace]:
        """Return at most `most` places where a token follows a match of a history's end, the longest first."""
        nearest, found = last_tokens(history), list[MemoryPlace]()
        for each in descend(self.parts, nearest)[0]:
            part = each.part
            if part.sign < 0:
                continue
            places, lengths, tokens = matched(each, nearest)
            said = tokens == token
            numbers = part.segment.numbers(places[said])
            offsets = places[said] + 1 - part.segment.starts[numbers]
            found += (
                MemoryPlace(part.segment.documents[number][0], offset, length)
                for number, offset, length in np.stack((numbers, offsets, lengths[said]), 1).tolist()
                if number not in part.hidden
            )
        return sorted(found, key=lambda place: (-place.length, place.path, place.offset))[:most]

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
    def parts(self) -> Sequence[Part]:
        """The segments that count, and those that are taken off."""
        return self._make()

    @cached_property
    def _counter(self) -> Counter | NativeCounter:
        lib = c.library()
        return Counter(self.parts) if isinstance(lib, str) else NativeCounter(lib, self.parts)
