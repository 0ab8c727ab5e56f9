"""Which arrays an arena consists of: the one place that knows the shape of keys and values.

Windows that slide and states that cannot be cut will be further fields of planes and layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig

FP32 = 4  # bytes

KeysValues = tuple[npt.NDArray[np.float32], ...]  # an array for each plane of a layout, of the same tokens


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


class PlacedPlane(NamedTuple):
    """Where a plane lies in an array of numbers, and its dimensions."""

    place: slice
    shape: tuple[int, int, int, int]


@dataclass(frozen=True)
class KvLayout:
    """The planes of an arena, in the order of a block's bytes, and the bytes of a number."""

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

    def placed(self, tokens: int) -> list[PlacedPlane]:
        """Return where the planes of so many tokens are in one array that has them one after the other."""
        found, start = list[PlacedPlane](), 0
        for plane in self.planes:
            end = start + plane.numbers * tokens
            found.append(PlacedPlane(slice(start, end), plane.shape(tokens)))
            start = end
        return found

    def split(self, numbers: Any, tokens: int) -> tuple[Any, ...]:
        """Return the planes of so many tokens as views of an array that has them one after the other."""
        return split(numbers, self.placed(tokens))


def split(numbers: Any, placed: Sequence[PlacedPlane]) -> tuple[Any, ...]:
    """Return planes as views of the array that they lie in."""
    return tuple([numbers[plane.place].reshape(plane.shape) for plane in placed])


def arena_bytes(config: ModelConfig, capacity: int, element: int = FP32) -> int:
    """Return the bytes that one arena of a model takes, its excerpt rows included."""
    return KvLayout.of(config, element).token_bytes * (config.excerpt_rows + capacity)
