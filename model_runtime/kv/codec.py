"""Blocks of keys and values as bytes: raw fp32, bf16 where that is what they are, or int8 with fp32 scales.

int8 is as in KIVI (arXiv 2402.02750): a few channels of keys are far larger than the others, at every token, so keys
have a scale for each channel; values have no such channels, and have a scale for each token.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SINK_TOKENS = 4  # first tokens, to which all later ones attend (arXiv 2309.17453): they stay raw
RECENT_TOKENS = 128  # last tokens of a sequence, which stay raw, too
INT8_MAX = 127  # the range is symmetric about 0
FP32 = 4  # bytes
BF16 = 2  # bytes: the upper half of fp32
MIN_SCALE = np.finfo(np.float32).tiny  # below it fp32 loses precision: numbers with a smaller scale become 0
TOKEN_AXIS, CHANNEL_AXIS = 2, 3  # of [layers, kv_heads, tokens, head_dim]

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int8]
Rotations = npt.NDArray[np.complex64]


class Form(IntEnum):
    """How a block's bytes are to be read; the numbers are stored beside them."""

    RAW = 0
    INT8 = 1
    BF16 = 2


class Shape(NamedTuple):
    """Dimensions of a block's keys, and of its values."""

    layers: int
    kv_heads: int
    tokens: int
    head_dim: int

    @property
    def of_block(self) -> tuple[int, int, int, int, int]:
        """The shape of keys and values together: [2, layers, kv_heads, tokens, head_dim]."""
        return (2, self.layers, self.kv_heads, self.tokens, self.head_dim)

    @property
    def raw_bytes(self) -> int:
        """The size of a raw block in bytes."""
        return 2 * FP32 * self.layers * self.kv_heads * self.tokens * self.head_dim


class _Parts(NamedTuple):
    """The parts of an int8 block, in the order of its bytes; all are views."""

    key_scales: Floats  # [layers, kv_heads, 1, head_dim]
    value_scales: Floats  # [layers, kv_heads, tokens, 1]
    keys: Ints  # before rotary embedding, [layers, kv_heads, tokens, head_dim]
    values: Ints  # the same


class KvCodec:
    """Encodes and decodes the keys and values of blocks, fp32 of `Shape.of_block`; stateless, safe on any thread.

    `rotations` [context, head_dim / 2] are what rotary embedding multiplied the keys by, whose dimensions 2j and
    2j + 1 are one complex number; None if it did not. Scales are taken before rotation: rotating mixes the two
    channels of a pair, so that a large one would spoil both.
    """

    def __init__(self, shape: Shape, rotations: Rotations | None, exact: Form = Form.RAW) -> None:
        """Own the rotations; raises ValueError if they do not fit head_dim.

        `exact` is the form of blocks that must come back as they were: BF16 if all numbers have that precision.
        """
        if rotations is not None and 2 * rotations.shape[1] != shape.head_dim:
            raise ValueError(f"rotations of {rotations.shape[1]} pairs do not fit a head_dim of {shape.head_dim}")
        self._shape, self._rotations, self.exact = shape, rotations, exact

    def is_exact(self, form: int) -> bool:
        """Return whether a block comes back as it was."""
        return form != Form.INT8

    def forms_at(self, first: int, length: int, wanted: int) -> tuple[int, int]:
        """Return the form to try for the block from token `first` of a sequence of `length`, and one for any rows."""
        ends = first < SINK_TOKENS or first + self._shape.tokens > length - RECENT_TOKENS
        return (self.exact if ends else wanted, Form.RAW)

    def size(self, form: int) -> int:
        """Return the size of a block in bytes."""
        if form != Form.INT8:
            return self._shape.raw_bytes // (FP32 // BF16 if form == Form.BF16 else 1)
        layers, kv_heads, tokens, head_dim = self._shape
        return layers * kv_heads * (FP32 * (head_dim + tokens) + 2 * tokens * head_dim)

    def encode(self, rows: Floats, begin: int, form: int) -> Bytes:
        """Encode the block whose first token has the position `begin`; a raw one is a view of contiguous rows.

        Raises ValueError if int8 cannot represent the numbers, which are not finite, if bf16 cannot, which has fewer
        digits, or if the rotations end before.
        """
        if form == Form.RAW:
            return np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        if form == Form.BF16:
            lower, upper = np.ascontiguousarray(rows).reshape(-1).view("<u2").reshape(-1, 2).T
            if lower.any():
                raise ValueError("keys or values have more digits than bf16")
            return np.ascontiguousarray(upper).view(np.uint8)
        data = np.empty(self.size(form), np.uint8)
        parts = self._parts(data)
        with np.errstate(over="ignore", invalid="ignore"):  # the scales show it
            _quantize(self._unrotated(rows[0], begin), TOKEN_AXIS, parts.key_scales, parts.keys)
            _quantize(rows[1], CHANNEL_AXIS, parts.value_scales, parts.values)
        return data

    def decode(self, data: Bytes, begin: int, form: int) -> Floats:
        """Decode what `encode` returned, a raw block as a view of `data`; raises ValueError if the size is wrong."""
        if len(data) != self.size(form):
            raise ValueError(f"a block of {len(data)} bytes: {Form(form).name} takes {self.size(form)}")
        if form == Form.RAW:
            return data.view(np.float32).reshape(self._shape.of_block)
        if form == Form.BF16:
            kv = np.zeros(self._shape.of_block, np.float32)
            kv.reshape(-1).view("<u2")[1::2] = data.view("<u2")
            return kv
        parts, kv = self._parts(data), np.empty(self._shape.of_block, np.float32)
        _scale(parts.keys, parts.key_scales, kv[0])
        _scale(parts.values, parts.value_scales, kv[1])
        self._rotate(kv[0], begin)
        return kv

    def _parts(self, data: Bytes) -> _Parts:
        layers, kv_heads, tokens, head_dim = self._shape
        heads, keys = layers * kv_heads, layers * kv_heads * tokens * head_dim
        ends = np.cumsum([FP32 * heads * head_dim, FP32 * heads * tokens, keys])
        key_scales, value_scales, *numbers = np.split(data, ends)
        ints = [part.view(np.int8).reshape(layers, kv_heads, tokens, head_dim) for part in numbers]
        return _Parts(
            key_scales.view(np.float32).reshape(layers, kv_heads, 1, head_dim),
            value_scales.view(np.float32).reshape(layers, kv_heads, tokens, 1),
            *ints,
        )

    def _unrotated(self, keys: Floats, begin: int) -> Floats:
        if self._rotations is None:
            return keys
        return (keys.view(np.complex64) * self._turns(self._rotations, begin).conj()).view(np.float32)

    def _rotate(self, keys: Floats, begin: int) -> None:
        if self._rotations is not None:
            pairs = keys.view(np.complex64)
            pairs *= self._turns(self._rotations, begin)

    def _turns(self, rotations: Rotations, begin: int) -> Rotations:
        if not 0 <= begin <= len(rotations) - self._shape.tokens:
            raise ValueError(f"a block at token {begin} is outside a context of {len(rotations)}")
        return rotations[begin : begin + self._shape.tokens]


def _quantize(numbers: Floats, axis: int, scales: Floats, into: Ints) -> None:
    """Write one scale for all numbers along an axis, and the nearest multiples of it."""
    magnitudes = np.abs(numbers)
    # The bits of non-negative floats are in the order of the floats, NaN above all; maxima of integers are faster.
    largest = magnitudes.view(np.uint32).max(axis, keepdims=True).view(np.float32)
    if not np.isfinite(largest).all():
        raise ValueError("keys or values are not finite")
    np.divide(largest, INT8_MAX, out=scales)
    scales[scales < MIN_SCALE] = 0
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    scaled = np.multiply(numbers, inverse, out=magnitudes)
    into[...] = np.rint(scaled, out=scaled)


def _scale(numbers: Ints, scales: Floats, into: Floats) -> None:
    """Write multiples of scales, in two steps: a product of mixed types is slower than both."""
    into[...] = numbers
    into *= scales
