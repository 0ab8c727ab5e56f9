"""Arenas: preallocated keys and values of one token sequence each, in any memory, and those of a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.ids import Ids, common_prefix
from model_runtime.isolated import IsolatedExcerpts
from model_runtime.kv.layout import KeysValues, KvLayout, arena_bytes
from model_runtime.kv.sequence import Quality, TokenSequence
from model_runtime.logits import Logits
from model_runtime.mapped_memory import map_zeros, release_pages


class Arena(TokenSequence, ABC):
    """Keys and values of one token sequence, and of the excerpts before it.

    Invariant: `[:, :, excerpt_rows + i]` of each of the layout's `planes` holds what the model computed for `ids[i]`
    after `ids[:i]` and the excerpts, if it sees them, for every i < length; what lies beyond is junk. Planes are
    arrays of the kind that the decoder which computes here works with; `k` is the first, `v` the last. `logits`,
    where `logits_at` is not -1, follow `ids[:logits_at]`. `answers` is what the engine remembers of the last answer
    made here: kept on truncation; dropped by `copy_prefix`, `change_owner` and `enter`.
    """

    k: Any
    v: Any

    def __init__(self, layout: KvLayout, planes: tuple[Any, ...], capacity: int, excerpt_rows: int) -> None:
        """Start empty, with the planes of a layout."""
        super().__init__(capacity, excerpt_rows)
        self.layout, self.planes = layout, planes
        self.k, self.v = planes[0], planes[-1]
        self.logits: Logits | None = None
        self.answers: object | None = None

    @abstractmethod
    def write(self, row: int, computed: Iterable[npt.NDArray[np.float32]]) -> None:
        """Write keys and values, one array for each plane, to the rows from `row` on."""

    @abstractmethod
    def read(self, start: int, end: int) -> KeysValues:
        """Return the keys and values of the tokens from `start` to `end`, valid until the arena changes."""

    def copy_out(self, start: int, end: int) -> KeysValues:
        """Return a copy of the keys and values of the tokens from `start` to `end`."""
        return tuple(plane.copy() for plane in self.read(start, end))

    def copy_in(self, ids: Ids, computed: Iterable[npt.NDArray[np.float32]], quality: Quality) -> None:
        """Append tokens with a copy of keys and values that were computed after the same preceding tokens."""
        self.write(self.excerpt_rows + self.length, computed)
        self.append(ids, quality)

    def copy_prefix(self, other: TokenSequence, length: int) -> None:
        """Become the first `length` tokens of `other`, with its keys and values; those that are equal stay."""
        assert isinstance(other, Arena)
        start = min(common_prefix(self.ids, other.ids[:length]), self.rows.first_below(Quality.EXACT))
        rows = slice(self.excerpt_rows + start, self.excerpt_rows + length)
        for mine, theirs in zip(self.planes, other.planes, strict=True):
            mine[:, :, rows] = theirs[:, :, rows]
        self.answers = None
        super().copy_prefix(other, length)

    def keep_logits(self, logits: Logits, at: int) -> None:
        """Copy the logits [vocab] that follow the first `at` tokens, so that the same prompt costs no pass.

        They are copied where they are, without the other rows of their pass.
        """
        self.logits, self.logits_at = logits.copy() if isinstance(logits, np.ndarray) else logits.clone(), at

    def give_back(self) -> None:
        """Forget all that is here, for the memory to be used elsewhere, as far as it is this arena's own."""
        super().give_back()
        self.logits = self.answers = None

    def change_owner(self) -> None:
        """Begin to serve another frame: what is known of the last one's answers would hide what this one computes."""
        self.answers = None

    def enter(self, excerpts: IsolatedExcerpts) -> bool:
        """Have these excerpts, whose keys and values are to be written next; forget what saw others."""
        entered = super().enter(excerpts)
        if entered:
            self.answers = None
        return entered


class DenseArena(Arena):
    """An arena in memory of its own, contiguous and fp32, in which decoders on a CPU compute."""

    k: npt.NDArray[np.float32]
    v: npt.NDArray[np.float32]

    def __init__(self, config: ModelConfig, capacity: int) -> None:
        """Allocate the planes of a model's layout; a page takes memory once written.

        Small pages: the tokens of a short document lie in each head's rows, one huge page apart. Raises MemoryError.
        """
        layout = KvLayout.of(config)
        memory = map_zeros(arena_bytes(config, capacity), in_huge_pages=False).view(np.float32)
        super().__init__(layout, layout.split(memory, config.excerpt_rows + capacity), capacity, config.excerpt_rows)

    def write(self, row: int, computed: Iterable[npt.NDArray[np.float32]]) -> None:
        """Write keys and values, one array for each plane, to the rows from `row` on."""
        for plane, numbers in zip(self.planes, computed, strict=True):
            plane[:, :, row : row + numbers.shape[2]] = numbers

    def read(self, start: int, end: int) -> KeysValues:
        """Return views of the keys and values of the tokens from `start` to `end`."""
        assert 0 <= start <= end <= self.length
        rows = slice(self.excerpt_rows + start, self.excerpt_rows + end)
        return tuple(plane[:, :, rows] for plane in self.planes)

    def give_back(self) -> None:
        """Forget all that is here, and return its pages to the system; they are mapped anew once written."""
        super().give_back()
        release_pages(self.k)
