"""A small checkpoint and one of the CPU's decoders, for tests of what arenas keep."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.linear import packed_format
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.decoder.streams import torch_decoder
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena
from tests.compiled import require_compiled
from tests.engine.doubles import fetched

Way = Literal["torch", "compiled"]


class Decoded:
    """A checkpoint and a decoder of one of the ways."""

    def __init__(self, folder: Path, way: Way, threads: int = 1) -> None:
        if way == "compiled":
            require_compiled()
        self.folder, self.way, self.config = folder, way, read_config(folder)
        weights = read_weights(folder, self.config)
        self.decoder: AnyDecoder = (
            torch_decoder(self.config, weights, packed_format())
            if way == "torch"
            else NativeDecoder(self.config, weights, "fp16", threads)
        )

    def arena(self) -> DenseArena:
        """An arena full of junk, but for the states that it begins with."""
        arena = DenseArena(self.config, self.config.context)
        for plane in arena.planes:
            plane.fill(np.nan)
        if arena.states is not None:
            arena.states[1:] = np.nan
        return arena

    def computed(self, ids: Ids, step: int = 64) -> DenseArena:
        """An arena with these tokens, as prefill computes them."""
        return self.extended(self.arena(), ids, step)

    def extended(self, arena: DenseArena, ids: Ids, step: int = 64) -> DenseArena:
        """The arena, with what it lacks of these tokens."""
        for start in range(arena.length, len(ids), step):
            self.decoder.forward(ids[start : start + step], arena)
        return arena

    def equal(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Whether logits have the same bits; torch's depend on a pass's width in the last ones."""
        return np.array_equal(one, other) if self.way == "compiled" else bool(np.abs(one - other).max() < 1e-4)

    def logits(self, arena: DenseArena) -> np.ndarray:
        """What follows the arena's tokens and one more."""
        return fetched(self.decoder.forward(np.array([7], np.int32), arena))[0]
