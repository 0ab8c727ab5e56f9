"""Token ids of some documents, and their places in the order of the tokens before them.

All matches of a history's last n tokens are one range of the places, and matches of n + 1 tokens a range within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.counts.native import library as c
from model_runtime.ids import Ids

LEAST, MOST = 3, 16  # tokens of a match: what shorter ones say costs more time than it is worth
PLACE_BYTES = 3
MOST_TOKENS = 1 << 8 * PLACE_BYTES  # of a segment, with a break before and after each document

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class CountedDocument(NamedTuple):
    """A document as it is counted: its absolute real path, the 16-byte BLAKE2b of its text, and its token ids.

    A negative id is a break, which no match crosses.
    """

    path: str
    digest: bytes
    ids: Ids


@dataclass(frozen=True, eq=False)
class Segment:
    """An index of some documents. Immutable; 5 bytes a token, or 6 with token ids above 65,534.

    `raw` holds the tokens, little-endian, `width` bytes each; the greatest number is a break. `packed` are the places
    of tokens that another token follows, `PLACE_BYTES` each, ordered by the up to `MOST` tokens that end there, the
    nearest first, then by the token that follows, then by place. Document n begins at token `starts[n]`, and a break
    stands before the next one's start.
    """

    documents: tuple[tuple[str, bytes], ...]  # path and digest
    starts: Numbers
    raw: Bytes
    width: int
    packed: Bytes = field(repr=False)

    @property
    def tokens(self) -> int:
        """Number of tokens, breaks included."""
        return len(self.raw) // self.width

    @property
    def size(self) -> int:
        """Number of places."""
        return len(self.packed) // PLACE_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of all arrays."""
        return self.raw.nbytes + self.packed.nbytes + self.starts.nbytes

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.documents)

    def length(self, number: int) -> int:
        """Return the number of tokens of a document."""
        return int(self.starts[number + 1] - self.starts[number]) - 1

    def document(self, number: int) -> CountedDocument:
        """Return a document as it was given."""
        path, digest = self.documents[number]
        return CountedDocument(path, digest, self.ids(int(self.starts[number]), int(self.starts[number + 1]) - 1))

    def ids(self, start: int, stop: int) -> Ids:
        """Return tokens as ids; breaks are -1."""
        part = self.raw[start * self.width : stop * self.width]
        ids = part.view("<u2").astype(np.int32) if self.width == 2 else _unpacked(part)
        ids[ids == self.pause] = -1
        return ids

    def places(self, start: int, stop: int) -> Numbers:
        """Return the places from index `start` to `stop` of their order."""
        return _unpacked(self.packed[start * PLACE_BYTES : stop * PLACE_BYTES]).astype(np.int64)

    def place(self, index: int) -> int:
        """Return the place at an index."""
        return int.from_bytes(self.packed[index * PLACE_BYTES : (index + 1) * PLACE_BYTES].tobytes(), "little")

    def numbers(self, places: Numbers) -> Numbers:
        """Return the number of the document of each place."""
        return np.searchsorted(self.starts, places, "right") - 1

    @cached_property
    def pause(self) -> int:
        """The number that stands for a break."""
        return (1 << 8 * self.width) - 1


def build_segment(documents: Sequence[CountedDocument]) -> Segment:
    """Index documents. Ordering the places takes about half a second for a million tokens, without the GIL."""
    lengths = [len(document.ids) for document in documents]
    starts = np.concatenate(([1], 1 + np.cumsum(np.array(lengths, dtype=np.int64) + 1)))
    pause = np.array([-1], dtype=np.int32)
    ids = np.concatenate([pause, *(part for document in documents for part in (document.ids, pause))])
    if len(ids) > MOST_TOKENS:
        raise ValueError(f"a segment holds at most {MOST_TOKENS} tokens, and these are {len(ids)}")
    width = 2 if ids.max(initial=0) < (1 << 16) - 1 else 3
    named = tuple((document.path, document.digest) for document in documents)
    raw = ids.astype("<u2").view(np.uint8) if width == 2 else _packed(ids)
    return Segment(named, starts, raw, width, _ordered(raw, width, ids))


def _ordered(raw: Bytes, width: int, ids: Ids) -> Bytes:
    """Return the places that another token follows, in a segment's order; `ids` begin and end with a break."""
    if isinstance(lib := c.library(), str):
        return _packed(ordered_places(ids))
    size = int(((ids[:-1] >= 0) & (ids[1:] >= 0)).sum())
    packed = np.empty(size * PLACE_BYTES, dtype=np.uint8)
    if lib.counts_order(raw.ctypes.data, width, len(ids), size, packed.ctypes.data):
        raise MemoryError(f"no memory to order {size} places")
    return packed


def ordered_places(ids: Ids) -> Ids:
    """Return what `counts_order` does, in numpy.

    The tokens before each place are ranked 1, 2, 4, ... at a time: two ranks make the next one.
    """
    count = len(ids)
    at = np.arange(count)
    since = at - np.maximum.accumulate(np.where(ids < 0, at, 0))  # tokens from the last break
    last = count  # the rank of what begins with a break
    ranks, known = np.where(ids < 0, last, np.unique(ids, return_inverse=True)[1]).astype(np.int64), 1
    while known < MOST:
        before = np.full(count, last, dtype=np.int64)
        before[known:] = ranks[:-known]
        before[since < known] = last
        ranks = np.unique(ranks * (count + 1) + before, return_inverse=True)[1].astype(np.int64)
        ranks[ids < 0] = last
        known *= 2
    places = np.flatnonzero((ids[:-1] >= 0) & (ids[1:] >= 0))
    return places[np.lexsort((ids[places + 1], ranks[places]))].astype(np.int32)


def _packed(numbers: npt.NDArray[np.int32]) -> Bytes:
    """Return the low three bytes of each number."""
    return numbers.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].ravel()


def _unpacked(packed: Bytes) -> npt.NDArray[np.int32]:
    parts = packed.reshape(-1, 3).astype(np.int32)
    return parts[:, 0] | parts[:, 1] << 8 | parts[:, 2] << 16
