"""What a request sees of the memory: its documents without those that the request reads directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from model_runtime.ids import Ids
from model_runtime.memory.lookup import Followers, Part, count_followers, descend, find_draft, last_tokens, matched


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
        self._parts: Sequence[Part] | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether the documents are the same."""
        return isinstance(other, MemoryView) and self.version == other.version

    def __hash__(self) -> int:
        """Return a hash of the documents."""
        return hash(self.version)

    def followers(self, history: Ids) -> Followers:
        """Count what followed the matches of a history's end."""
        return count_followers(self.parts, last_tokens(history))

    def draft(self, history: Ids, most: int) -> Ids:
        """Return at most `most` tokens that followed one of the longest matches of a history's end."""
        nearest = last_tokens(history)
        return find_draft(self.parts, nearest, self.followers(history), most)

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

    @property
    def parts(self) -> Sequence[Part]:
        """The segments that count, and those that are taken off."""
        if self._parts is None:
            self._parts = self._make()
        return self._parts
