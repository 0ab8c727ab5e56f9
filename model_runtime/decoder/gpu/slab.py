"""Arenas as slots of one tensor for each plane, so that one kernel can read them all."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import KeysValues, KvLayout

SPARE_ROWS = 64  # rows behind the slots, for rows of a pass that belong to no arena
WIDTHS = (1, 2, 4, 8, 16, 32, SPARE_ROWS)  # rows of a recorded pass; a narrower one is padded with spare rows
MOST_ELEMENTS = 2**31  # of a layer's keys: kernels count them in 32 bits


class Slab:
    """The planes of all arenas, each [layers, tokens, heads, width]: `arenas` slots, then spare rows.

    Tokens come before heads, as xformers expects. Nothing is allocated after the start. A slot has a model's excerpt
    rows and `capacity` tokens; with excerpt rows there is one slot more, in which excerpts are computed.
    """

    def __init__(self, config: ModelConfig, capacity: int, arenas: int, dtype: torch.dtype, device: torch.device):
        """Allocate slots of `capacity` tokens."""
        self.capacity, self.excerpt_rows, self.slot = capacity, config.excerpt_rows, config.excerpt_rows + capacity
        arenas += config.excerpt_rows > 0
        rows = arenas * self.slot + SPARE_ROWS
        self.layout = KvLayout.of(config)
        self.planes = tuple(
            torch.zeros((len(plane.layers), rows, plane.heads, plane.width), dtype=dtype, device=device)
            for plane in self.layout.planes
        )
        self.k, self.v = self.planes[0], self.planes[-1]
        self._slots = iter(range(arenas))

    @property
    def rows(self) -> int:
        """Number of tokens that the slab has room for, including the spare rows."""
        return self.k.shape[1]

    @property
    def spare(self) -> int:
        """First of the rows that belong to no arena."""
        return self.rows - SPARE_ROWS

    @property
    def longest(self) -> int:
        """Keys that kernels of single rows are made for: a power of two, which splits into whole tiles."""
        return 1 << (self.slot - 1).bit_length()

    def arena(self) -> SlabArena:
        """Return the next slot as an arena; StopIteration when all slots are taken."""
        return SlabArena(self, next(self._slots) * self.slot, self.excerpt_rows)

    def scratch(self) -> SlabArena:
        """Return the next slot as an arena without excerpt rows, for what is computed alone."""
        return SlabArena(self, next(self._slots) * self.slot, 0)


class SlabArena(Arena):
    """An arena that is a slot of a slab, from row `first` on."""

    k: torch.Tensor
    v: torch.Tensor

    def __init__(self, slab: Slab, first: int, excerpt_rows: int) -> None:
        """Make views of a slot; nothing is allocated."""
        planes = tuple(plane[:, first : first + slab.slot].transpose(1, 2) for plane in slab.planes)
        super().__init__(slab.layout, planes, slab.slot - excerpt_rows, excerpt_rows)
        self.first = first

    def read(self, start: int, end: int) -> KeysValues:
        """Return keys and values in fp32, which holds every bf16 number exactly; waits for the device, once."""
        assert 0 <= start <= end <= self.length
        rows = slice(self.excerpt_rows + start, self.excerpt_rows + end)
        joined = torch.cat([plane[:, :, rows].reshape(-1) for plane in self.planes])
        return self.layout.split(joined.cpu().float().numpy(), end - start)

    def write(self, row: int, computed: Iterable[npt.NDArray[np.float32]]) -> None:
        """Write keys and values, cast to the slab's dtype, which is lossless for what came from a slab."""
        parts = list(computed)
        tokens, joined = parts[0].shape[2], np.concatenate([part.reshape(-1) for part in parts])
        new = self.layout.split(torch.as_tensor(joined).to(self.k.dtype).to(self.k.device), tokens)
        for plane, numbers in zip(self.planes, new, strict=True):
            plane[:, :, row : row + tokens] = numbers


def most_slots(config: ModelConfig, capacity: int) -> int:
    """Return the most slots that one slab may have."""
    rows = MOST_ELEMENTS // max(plane.heads * plane.width for plane in KvLayout.of(config).planes) - SPARE_ROWS
    return rows // (config.excerpt_rows + capacity) - (config.excerpt_rows > 0)
