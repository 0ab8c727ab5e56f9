"""Looks a history up in segments by the compiled part: what lookup.py does, a hundred times as fast."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

import numpy as np

from model_runtime.counts import lookup
from model_runtime.counts.lookup import NO_IDS, Followers, SignedSegment
from model_runtime.counts.native.library import NativeAnswer, NativePart
from model_runtime.ids import Ids

ENTRIES = 1 << 12  # that an answer has room for at first


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
