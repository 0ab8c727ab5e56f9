"""Arenas as slots of one tensor for each plane, so that one kernel can read them all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import KeysValues, KvLayout, placed, split

SPARE_ROWS = 64  # rows behind the slots, for rows of a pass that belong to no arena
WIDTHS = (1, 2, 4, 8, 16, 32, SPARE_ROWS)  # rows of a recorded pass; a narrower one is padded with spare rows
MOST_ELEMENTS = 2**31  # of a layer's keys: kernels count them in 32 bits


class SlabKind(NamedTuple):
    """The slots of one kind of layers: the rows of one, and of all with the spare ones."""

    slot: int
    rows: int

    @property
    def spare(self) -> int:
        """First of the rows that belong to no arena."""
        return self.rows - SPARE_ROWS

    @property
    def longest(self) -> int:
        """Keys that kernels of single rows are made for: a power of two, which splits into whole tiles."""
        return 1 << (self.slot - 1).bit_length()


class Slab:
    """The planes of all arenas, each [layers, tokens, heads, width]: `arenas` slots, then spare rows.

    Tokens come before heads, as xformers expects. Nothing is allocated after the start. A slot has a model's excerpt
    rows and `capacity` tokens, or what layers that slide keep of them; with excerpt rows there is one slot more, in
    which excerpts are computed. `k` and `v` are the planes of the first kind of layers.
    """

    def __init__(self, config: ModelConfig, capacity: int, arenas: int, dtype: torch.dtype, device: torch.device):
        """Allocate slots of `capacity` tokens."""
        self.capacity, self.excerpt_rows, self.slot = capacity, config.excerpt_rows, config.excerpt_rows + capacity
        arenas += config.excerpt_rows > 0
        self.layout = KvLayout.of(config)
        slots = [plane.rows(self.slot) for plane in self.layout.planes[::2]]
        self.kinds = tuple(SlabKind(slot, arenas * slot + SPARE_ROWS) for slot in slots)
        self.planes = tuple(
            torch.zeros(
                (len(plane.layers), self.kinds[i // 2].rows, plane.heads, plane.width), dtype=dtype, device=device
            )
            for i, plane in enumerate(self.layout.planes)
        )
        self.k, self.v = self.planes[:2]
        self._slots = iter(range(arenas))

    def arena(self) -> SlabArena:
        """Return the next slot as an arena; StopIteration when all slots are taken."""
        return SlabArena(self, next(self._slots), self.excerpt_rows)

    def scratch(self) -> SlabArena:
        """Return the next slot as an arena without excerpt rows, for excerpts computed alone."""
        return SlabArena(self, next(self._slots), 0)


class SlabArena(Arena):
    """An arena that is a slot of a slab, from the row of `firsts` on in each kind of layers."""

    k: torch.Tensor
    v: torch.Tensor

    def __init__(self, slab: Slab, number: int, excerpt_rows: int) -> None:
        """Make views of a slot; nothing is allocated."""
        self.firsts = [number * kind.slot for kind in slab.kinds]
        places = [slice(first, first + kind.slot) for first, kind in zip(self.firsts, slab.kinds, strict=True)]
        planes = tuple(plane[:, places[i // 2]].transpose(1, 2) for i, plane in enumerate(slab.planes))
        super().__init__(slab.layout, planes, slab.slot - excerpt_rows, excerpt_rows)

    def read(self, start: int, end: int) -> KeysValues:
        """Return keys and values in fp32, which holds every bf16 number exactly; waits for the device, once."""
        found = [plane[:, :, rows] for plane, rows in zip(self.planes, self.rows_read(start, end), strict=True)]
        joined = torch.cat([each.reshape(-1) for each in found]).cpu().float().numpy()
        sizes = zip(self.layout.planes, (each.shape[2] for each in found), strict=True)
        return split(joined, placed(list(sizes)))

    def write(self, row: int, computed: Iterable[npt.NDArray[np.float32]]) -> None:
        """Write keys and values, cast to the slab's dtype, which is lossless for what came from a slab."""
        start, parts = row - self.excerpt_rows, list[npt.NDArray[np.float32]]()
        rows = list[slice]()
        for plane, numbers in zip(self.layout.planes, computed, strict=True):
            tokens = numbers.shape[2]
            rows.append(at := self.rows_of(plane, start, start + tokens))
            parts.append(numbers[:, :, tokens - (at.stop - at.start) :])
        joined = torch.as_tensor(np.concatenate([part.reshape(-1) for part in parts]))
        sizes = zip(self.layout.planes, (part.shape[2] for part in parts), strict=True)
        new = split(joined.to(self.k.dtype).to(self.k.device), placed(list(sizes)))
        for plane, at, numbers in zip(self.planes, rows, new, strict=True):
            plane[:, :, at] = numbers


def most_slots(config: ModelConfig, capacity: int) -> int:
    """Return the most slots that one slab may have."""
    rows = MOST_ELEMENTS // max(plane.heads * plane.width for plane in KvLayout.of(config).planes) - SPARE_ROWS
    return rows // (config.excerpt_rows + capacity) - (config.excerpt_rows > 0)
