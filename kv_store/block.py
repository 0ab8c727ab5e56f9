"""Blocks: the keys and values of 16 consecutive tokens across all layers, as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kv_store.names import TOKENS, Name

Bytes = npt.NDArray[np.uint8]
FP32 = 4  # bytes


class Codec(IntEnum):
    """How a block's keys and values are written; the numbers are part of the format on disk."""

    RAW = 0
    INT8 = 1


class Shape(NamedTuple):
    """What the keys (and the values) of one token look like: fp32 [layers, kv_heads, head_dim]."""

    layers: int
    kv_heads: int
    head_dim: int

    @property
    def of_block(self) -> tuple[int, int, int, int, int]:
        """Keys and values of a block: [2, layers, kv_heads, tokens, head_dim]."""
        return (2, self.layers, self.kv_heads, TOKENS, self.head_dim)

    @property
    def raw_bytes(self) -> int:
        """Size of a block that is written as it is."""
        return 2 * FP32 * self.layers * self.kv_heads * TOKENS * self.head_dim


@dataclass(frozen=True, slots=True)
class Block:
    """An immutable block. `parent` is the name of the one before it; `document` the tag of who brought it.

    `approximate` says that it, or a block that it was computed behind, went through a codec that loses something.
    """

    name: Name
    parent: Name
    document: int
    codec: Codec
    approximate: bool
    data: Bytes
