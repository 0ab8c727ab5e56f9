"""Which arrays an arena consists of: the one place that knows the shape of keys and values.

Windows that slide and states that cannot be cut will be further fields of planes and layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from model_runtime.checkpoint.config import ModelConfig

FP32 = 4  # bytes


class Plane(NamedTuple):
    """One array of an arena: of each token, `width` numbers for each of `heads` of the layers that write it.

    `rotated` numbers are multiplied by the factors of their token's place, if the decoder knows these.
    """

    name: Literal["k", "v"]
    layers: tuple[int, ...]
    heads: int
    width: int
    rotated: bool = False

    @property
    def numbers(self) -> int:
        """Numbers of one token."""
        return len(self.layers) * self.heads * self.width

    def shape(self, tokens: int) -> tuple[int, int, int, int]:
        """Return the dimensions [layers, heads, tokens, width]."""
        return len(self.layers), self.heads, tokens, self.width


@dataclass(frozen=True)
class KvLayout:
    """The planes of an arena, in the order of a block's bytes, and the bytes of a number.

    So far a layout has two planes of the same shape, keys and values, which are handed on as one array.
    """

    planes: tuple[Plane, ...]
    element: int = FP32

    @classmethod
    def of(cls, config: ModelConfig, element: int = FP32) -> KvLayout:
        """Return the layout of a model; ValueError if its layers' keys differ in shape."""
        shapes = {(layer.attention.kv_heads, layer.attention.head_dim) for layer in config.layers}
        if len(shapes) > 1:
            raise ValueError(f"layers with keys of different shapes do not fit into one plane: {sorted(shapes)}")
        [(heads, width)] = shapes
        return cls.keys_and_values(len(config.layers), heads, width, element)

    @classmethod
    def keys_and_values(cls, layers: int, heads: int, width: int, element: int = FP32) -> KvLayout:
        """Return the layout of layers that are all alike: rotated keys, then values."""
        all_layers = tuple(range(layers))
        keys = Plane("k", all_layers, heads, width, rotated=True)
        return cls((keys, Plane("v", all_layers, heads, width)), element)

    @property
    def token_bytes(self) -> int:
        """The bytes of one token."""
        return self.element * sum(plane.numbers for plane in self.planes)

    def shape(self, tokens: int) -> tuple[int, int, int, int, int]:
        """Return the dimensions [planes, layers, heads, tokens, width] of all planes as one array."""
        [shape] = {plane.shape(tokens) for plane in self.planes}
        return (len(self.planes), *shape)


def arena_bytes(config: ModelConfig, capacity: int, element: int = FP32) -> int:
    """Return the bytes that one arena of a model takes, its excerpt rows included."""
    return KvLayout.of(config, element).token_bytes * (config.excerpt_rows + capacity)
