"""Blocks: the keys and values of 16 consecutive tokens across all layers, as bytes, and their names.

A name is a chained hash over the tokens from the beginning of the sequence, so equal heads are the same blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BLOCK_TOKENS = 16
NAME_BYTES = 16
FP32 = 4  # bytes

Name = bytes
Bytes = npt.NDArray[np.uint8]


class Codec(IntEnum):
    """The encoding of a block's keys and values; the numbers are part of the format on disk."""

    RAW = 0
    INT8 = 1
    BF16 = 2

    @property
    def exact(self) -> bool:
        """Whether a block comes back as it was."""
        return self is not Codec.INT8


class Shape(NamedTuple):
    """Dimensions of one token's keys, and of its values: fp32 [layers, kv_heads, head_dim]."""

    layers: int
    kv_heads: int
    head_dim: int

    @property
    def of_block(self) -> tuple[int, int, int, int, int]:
        """The shape of a block's keys and values: [2, layers, kv_heads, tokens, head_dim]."""
        return (2, self.layers, self.kv_heads, BLOCK_TOKENS, self.head_dim)

    @property
    def raw_bytes(self) -> int:
        """The size of a raw block in bytes."""
        return 2 * FP32 * self.layers * self.kv_heads * BLOCK_TOKENS * self.head_dim


@dataclass(frozen=True, slots=True)
class Block:
    """An immutable block.

    `parent` is the name of the block before it, `document` the tag of the document that brought it. `approximate` is
    true if this block, or one that it was computed from, went through a lossy codec.
    """

    name: Name
    parent: Name
    document: int
    codec: Codec
    approximate: bool
    data: Bytes


def root(fingerprint: bytes) -> Name:
    """Return the parent of a model's first blocks; names of different models never coincide."""
    return _hash(fingerprint)


def chain(first: Name, ids: npt.NDArray[np.int32]) -> list[Name]:
    """Return the names of the whole blocks of `ids`, each hashed over its parent's name and its own tokens.

    `first` is the parent of the first of them: the model's root, or the block that `ids` follow.
    """
    names, parent, tokens = list[Name](), first, ids.astype("<i4", copy=False)
    for start in range(0, len(ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        parent = _hash(parent + tokens[start : start + BLOCK_TOKENS].tobytes())
        names.append(parent)
    return names


def branch(parent: Name, seen: bytes) -> Name:
    """Return the name that a chain goes on from once its tokens depend on something else than those before them."""
    return _hash(parent + _hash(seen))


def tag(document: str) -> int:
    """Return a 64-bit number that stands for a document's name; never 0."""
    return int.from_bytes(blake2b(document.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") or 1


def _hash(data: bytes) -> Name:
    return blake2b(data, digest_size=NAME_BYTES).digest()
