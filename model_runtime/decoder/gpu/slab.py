"""Arenas as slots of one tensor for keys and one for values, so that one kernel can read them all."""

from __future__ import annotations

import numpy as np
import torch

from model_runtime.arena.arena import Arena, KeysValues
from model_runtime.arena.sequence import TokenSequence
from model_runtime.checkpoint.config import ModelConfig
from model_runtime.ids import Ids

SPARE_ROWS = 64  # rows behind the slots, for rows of a pass that belong to no arena
WIDTHS = (1, 2, 4, 8, 16, 32, SPARE_ROWS)  # rows of a recorded pass; a narrower one is padded with spare rows
MOST_ELEMENTS = 2**31  # of a layer's keys: kernels count them in 32 bits


class Slab:
    """Keys and values of all arenas, each [layers, tokens, kv_heads, head_dim]: `arenas` slots, then spare rows.

    Tokens come before heads, as xformers expects. Nothing is allocated after the start.
    """

    def __init__(self, config: ModelConfig, capacity: int, arenas: int, dtype: torch.dtype, device: torch.device):
        """Allocate slots of `capacity` tokens."""
        self.capacity = capacity
        shape = (config.layers, arenas * capacity + SPARE_ROWS, config.kv_heads, config.head_dim)
        self.k = torch.zeros(shape, dtype=dtype, device=device)
        self.v = torch.zeros(shape, dtype=dtype, device=device)
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
        return 1 << (self.capacity - 1).bit_length()

    def arena(self) -> SlabArena:
        """Return the next slot as an arena; StopIteration when all slots are taken."""
        return SlabArena(self, next(self._slots) * self.capacity)


class SlabArena(Arena):
    """An arena that is a slot of a slab, from row `first` on."""

    def __init__(self, slab: Slab, first: int) -> None:
        """Make views of a slot; nothing is allocated."""
        TokenSequence.__init__(self, slab.capacity)  # not Arena's, which would allocate
        self.first = first
        self.k: torch.Tensor = (  # pyright: ignore[reportIncompatibleVariableOverride]
            slab.k[:, first : first + slab.capacity].transpose(1, 2)
        )
        self.v: torch.Tensor = (  # pyright: ignore[reportIncompatibleVariableOverride]
            slab.v[:, first : first + slab.capacity].transpose(1, 2)
        )
        self.logits = None
        self.memo = None

    def copy_out(self, start: int, end: int) -> KeysValues:
        """Return keys and values in fp32, which holds every bf16 number exactly; waits for the device."""
        assert 0 <= start <= end <= self.length
        return torch.stack([each[:, :, start:end] for each in (self.k, self.v)]).cpu().float().numpy()

    def copy_in(self, ids: Ids, computed: KeysValues, exact: bool) -> None:
        """Copy in keys and values, cast to the slab's dtype, which is lossless for what came from a slab."""
        start, end = self.length, self.length + len(ids)
        new = torch.as_tensor(np.array(computed)).to(self.k.dtype).to(self.k.device)
        self.k[:, :, start:end], self.v[:, :, start:end] = new
        if not exact:
            self.exact = min(self.exact, start)
        self.append(ids)


def most_slots(config: ModelConfig, capacity: int) -> int:
    """Return the most slots that one slab may have."""
    return (MOST_ELEMENTS // (config.kv_heads * config.head_dim) - SPARE_ROWS) // capacity
