"""Blocks of keys and values as bytes: raw fp32, bf16 where that is what they are, or int8 with fp32 scales.

int8 is as in KIVI (arXiv 2402.02750): a few channels of keys are far larger than the others, at every token, so keys
have a scale for each channel; values have no such channels, and have a scale for each token.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.kv.layout import FP32, KeysValues, KvLayout, Plane, split

SINK_TOKENS = 4  # first tokens, to which all later ones attend (arXiv 2309.17453): they stay raw
RECENT_TOKENS = 128  # last tokens of a sequence, which stay raw, too
INT8_MAX = 127  # the range is symmetric about 0
BF16 = 2  # bytes: the upper half of fp32
MIN_SCALE = np.finfo(np.float32).tiny  # below it fp32 loses precision: numbers with a smaller scale become 0
TOKEN_AXIS, CHANNEL_AXIS = 2, 3  # of a plane

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int8]
Rotations = npt.NDArray[np.complex64]


class Form(IntEnum):
    """How a block's bytes are to be read; the numbers are stored beside them."""

    RAW = 0
    INT8 = 1
    BF16 = 2


class _Quantized(NamedTuple):
    """A plane of an int8 block; both are views of its bytes."""

    scales: Floats  # one for each channel of keys, or for each token of values
    numbers: Ints


class KvCodec:
    """Encodes and decodes the keys and values of blocks of `tokens`, fp32; stateless, safe on any thread.

    `rotations` [context, width / 2] are what rotary embedding multiplied the rotated planes by, whose numbers 2j
    and 2j + 1 are one complex number; None if it did not. Scales are taken before rotation: rotating mixes the two
    channels of a pair, so that a large one would spoil both.
    """

    def __init__(self, layout: KvLayout, tokens: int, rotations: Rotations | None, exact: Form = Form.RAW) -> None:
        """Own the rotations; raises ValueError if they do not fit the planes that are rotated.

        `exact` is the form of blocks that must come back as they were: BF16 if all numbers have that precision.
        """
        widths = {plane.width for plane in layout.planes if plane.rotated}
        if rotations is not None and widths != {2 * rotations.shape[1]}:
            raise ValueError(f"rotations of {rotations.shape[1]} pairs do not fit a head_dim of {min(widths)}")
        self._layout, self._tokens, self._rotations, self.exact = layout, tokens, rotations, exact
        self._placed = layout.placed(tokens)
        self._shapes = [plane.shape for plane in self._placed]
        self._count = sum(map(prod, self._shapes))  # numbers of a block
        axes = zip(self._shapes, map(_axis, layout.planes), strict=True)
        self._scale_shapes = [(*shape[:axis], 1, *shape[axis + 1 :]) for shape, axis in axes]
        sizes = [*(FP32 * prod(shape) for shape in self._scale_shapes), *map(prod, self._shapes)]
        self._ends = np.cumsum(sizes)

    def is_exact(self, form: int) -> bool:
        """Return whether a block comes back as it was."""
        return form != Form.INT8

    def forms_at(self, first: int, length: int, wanted: int) -> tuple[int, int]:
        """Return the form to try for the block from token `first` of a sequence of `length`, and one for any rows."""
        ends = first < SINK_TOKENS or first + self._tokens > length - RECENT_TOKENS
        return (self.exact if ends else wanted, Form.RAW)

    def size(self, form: int) -> int:
        """Return the size of a block in bytes."""
        if form == Form.INT8:
            return int(self._ends[-1])
        return self._count * (BF16 if form == Form.BF16 else FP32)

    def encode(self, rows: Iterable[Floats], begin: int, form: int) -> Bytes:
        """Encode the block whose first token has the position `begin`: its planes, in their order.

        Raises ValueError if int8 cannot represent the numbers, which are not finite, if bf16 cannot, which has fewer
        digits, or if the rotations end before.
        """
        if form == Form.RAW:
            return self._joined(rows).view(np.uint8)
        if form == Form.BF16:
            lower, upper = self._joined(rows).view("<u2").reshape(-1, 2).T
            if lower.any():
                raise ValueError("keys or values have more digits than bf16")
            return np.ascontiguousarray(upper).view(np.uint8)
        data = np.empty(self.size(form), np.uint8)
        planes = zip(self._layout.planes, rows, self._quantized(data), strict=True)
        with np.errstate(over="ignore", invalid="ignore"):  # the scales show it
            for plane, numbers, into in planes:
                unrotated = self._unrotated(numbers, begin) if plane.rotated else numbers
                _quantize(unrotated, _axis(plane), into.scales, into.numbers)
        return data

    def decode(self, data: Bytes, begin: int, form: int) -> KeysValues:
        """Decode what `encode` returned, a raw block as a view of `data`; raises ValueError if the size is wrong."""
        if len(data) != self.size(form):
            raise ValueError(f"a block of {len(data)} bytes: {Form(form).name} takes {self.size(form)}")
        if form == Form.RAW:
            return split(data.view(np.float32), self._placed)
        if form == Form.BF16:
            numbers = np.zeros(self._count, np.float32)
            numbers.view("<u2")[1::2] = data.view("<u2")
            return split(numbers, self._placed)
        decoded: KeysValues = split(np.empty(self._count, np.float32), self._placed)
        for plane, stored, into in zip(self._layout.planes, self._quantized(data), decoded, strict=True):
            _scale(stored.numbers, stored.scales, into)
            if plane.rotated:
                self._rotate(into, begin)
        return decoded

    def _joined(self, rows: Iterable[Floats]) -> Floats:
        """Return a copy of a block's planes, one after the other."""
        numbers = np.empty(self._count, np.float32)
        for into, plane in zip(split(numbers, self._placed), rows, strict=True):
            into[...] = plane
        return numbers

    def _quantized(self, data: Bytes) -> list[_Quantized]:
        """Return the planes of an int8 block: the scales of all come first, then the numbers of all."""
        parts, planes = np.split(data, self._ends[:-1]), len(self._shapes)
        scales = zip(parts[:planes], self._scale_shapes, strict=True)
        numbers = zip(parts[planes:], self._shapes, strict=True)
        return [
            _Quantized(scale.view(np.float32).reshape(scale_shape), number.view(np.int8).reshape(shape))
            for (scale, scale_shape), (number, shape) in zip(scales, numbers, strict=True)
        ]

    def _unrotated(self, keys: Floats, begin: int) -> Floats:
        if self._rotations is None:
            return keys
        return (keys.view(np.complex64) * self._turns(self._rotations, begin).conj()).view(np.float32)

    def _rotate(self, keys: Floats, begin: int) -> None:
        if self._rotations is not None:
            pairs = keys.view(np.complex64)
            pairs *= self._turns(self._rotations, begin)

    def _turns(self, rotations: Rotations, begin: int) -> Rotations:
        if not 0 <= begin <= len(rotations) - self._tokens:
            raise ValueError(f"a block at token {begin} is outside a context of {len(rotations)}")
        return rotations[begin : begin + self._tokens]


def _axis(plane: Plane) -> int:
    """Return along which axis the numbers of a plane share a scale: those of a channel of keys, a token of values."""
    return TOKEN_AXIS if plane.rotated else CHANNEL_AXIS


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
