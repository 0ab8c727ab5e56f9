"""Arenas in memory of their own, contiguous and fp32, which decoders on a CPU compute in."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import KeysValues, KvLayout, arena_bytes
from model_runtime.mapped_memory import map_zeros, release_pages


class DenseArena(Arena):
    """An arena whose planes are numpy's."""

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
