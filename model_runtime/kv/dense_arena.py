"""Arenas in memory of their own, contiguous and fp32, which decoders on a CPU compute in."""

from __future__ import annotations

import numpy as np

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.kv.arena import Arena, KeysValues
from model_runtime.kv.layout import KvLayout, arena_bytes
from model_runtime.mapped_memory import map_zeros, release_pages


class DenseArena(Arena):
    """An arena whose `k` and `v` are numpy's."""

    def __init__(self, config: ModelConfig, capacity: int) -> None:
        """Allocate the planes of a model's layout; a page takes memory once written.

        Small pages: the tokens of a short document lie in each head's rows, one huge page apart. Raises MemoryError.
        """
        super().__init__(capacity, config.excerpt_rows)
        memory = map_zeros(arena_bytes(config, capacity), in_huge_pages=False).view(np.float32)
        self.k: KeysValues
        self.v: KeysValues
        self.k, self.v = memory.reshape(KvLayout.of(config).shape(config.excerpt_rows + capacity))

    def write(self, row: int, computed: KeysValues) -> None:
        """Write keys and values to the rows from `row` on."""
        rows = slice(row, row + computed.shape[3])
        self.k[:, :, rows], self.v[:, :, rows] = computed

    def copy_out(self, start: int, end: int) -> KeysValues:
        """Return a copy of the keys and values of the tokens from `start` to `end`."""
        assert 0 <= start <= end <= self.length
        rows = slice(self.excerpt_rows + start, self.excerpt_rows + end)
        return np.stack([each[:, :, rows] for each in (self.k, self.v)])

    def give_back(self) -> None:
        """Forget all that is here, and return its pages to the system; they are mapped anew once written."""
        super().give_back()
        release_pages(self.k)
