"""Blocks of keys and values as bytes: raw fp32, bf16 if they are bf16 already, or int8 with fp32 scales.

int8 is as in KIVI (arXiv 2402.02750): a few channels of keys are far larger than the others, at every token, so keys
have a scale for each channel; values have no such channels, and have a scale for each token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.kv.layout import FP32, KeysValues, KvLayout, Plane, split

SINK_TOKENS = 4  # first tokens, to which all later ones attend (arXiv 2309.17453): they stay raw
RECENT_TOKENS = 128  # last tokens of a sequence, which stay raw, too
INT8_MAX = 127  # the range is symmetric about 0
MOST_SLOTS = 128  # that the states after a block take
BF16 = 2  # bytes: the upper half of fp32
MIN_SCALE = np.finfo(np.float32).tiny  # below it fp32 loses precision: numbers with a smaller scale become 0
TOKEN_AXIS, CHANNEL_AXIS = 2, 3  # of a plane

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int8]
Turns = npt.NDArray[np.complex64]
Rotations = tuple[Turns, ...]


class Form(IntEnum):
    """How a block's bytes are to be read; the numbers are stored with them.

    A block in a PART form lacks the planes of layers that slide, which had not kept its tokens. One in a STATE form
    ends with the states after it, raw.
    """

    RAW = 0
    INT8 = 1
    BF16 = 2
    PART_RAW = 8
    PART_INT8 = 9
    PART_BF16 = 10
    STATE_RAW = 16
    STATE_INT8 = 17
    STATE_BF16 = 18


PART, STATE = Form.PART_RAW, Form.STATE_RAW  # what forms of parts have added to whole ones, and those with states


class _Quantized(NamedTuple):
    """A plane of an int8 block; both are views of its bytes."""

    scales: Floats  # one for each channel of keys, or for each token of values
    numbers: Ints


class _PlaneSet:
    """The planes of a block: where they lie in its bytes."""

    def __init__(self, planes: Sequence[Plane], tokens: int) -> None:
        self.planes, self.placed = planes, KvLayout(tuple(planes)).placed(tokens)
        self._shapes = [plane.shape for plane in self.placed]
        self.count = sum(map(prod, self._shapes))  # numbers of a block
        axes = zip(self._shapes, map(_axis, planes), strict=True)
        self._scale_shapes = [(*shape[:axis], 1, *shape[axis + 1 :]) for shape, axis in axes]
        sizes = [*(FP32 * prod(shape) for shape in self._scale_shapes), *map(prod, self._shapes)]
        self._sizes, self._ends = sizes, np.cumsum(sizes, dtype=np.int64)

    def size(self, form: int) -> int:
        """Return the size of a block in bytes, in a whole form."""
        if form == Form.INT8:
            return int(sum(self._sizes))
        return self.count * (BF16 if form == Form.BF16 else FP32)

    def joined(self, rows: Iterable[Floats]) -> Floats:
        """Return a copy of a block's planes, one after the other."""
        numbers = np.empty(self.count, np.float32)
        for into, plane in zip(split(numbers, self.placed), rows, strict=True):
            into[...] = plane
        return numbers

    def quantized(self, data: Bytes) -> list[_Quantized]:
        """Return the planes of an int8 block: the scales of all come first, then the numbers of all."""
        if not self.planes:
            return []
        parts, planes = np.split(data, self._ends[:-1]), len(self._shapes)
        scales = zip(parts[:planes], self._scale_shapes, strict=True)
        numbers = zip(parts[planes:], self._shapes, strict=True)
        return [
            _Quantized(scale.view(np.float32).reshape(scale_shape), number.view(np.int8).reshape(shape))
            for (scale, scale_shape), (number, shape) in zip(scales, numbers, strict=True)
        ]


class KvCodec:
    """Encodes and decodes the keys and values of blocks of `tokens`, fp32; stateless, safe on any thread.

    `rotations` [context, width / 2] by number of `rope` are what rotary embedding multiplied the rotated planes by,
    whose numbers 2j and 2j + 1 are one complex number; None if it did not. Scales are taken before rotation: rotating
    mixes the two channels of a pair, so that a large one would spoil both.
    """

    def __init__(self, layout: KvLayout, tokens: int, rotations: Rotations | None, exact: Form = Form.RAW) -> None:
        """Own the rotations; raises ValueError if they do not fit the planes that are rotated.

        `exact` is the form of blocks that must come back as they were: BF16 if all numbers have that precision.
        """
        for plane in layout.planes:
            if rotations is not None and plane.rotated and plane.width != 2 * rotations[plane.rope].shape[1]:
                pairs = rotations[plane.rope].shape[1]
                raise ValueError(f"rotations of {pairs} pairs do not fit a head_dim of {plane.width}")
        self._layout, self._tokens, self._rotations, self.exact = layout, tokens, rotations, exact
        self._whole = _PlaneSet(layout.planes, tokens)
        self._part = _PlaneSet([plane for plane in layout.planes if not plane.window], tokens)

    def is_exact(self, form: int) -> bool:
        """Return whether a block comes back as it was."""
        return form % PART != Form.INT8

    def forms_at(self, rows: Sequence[Floats], first: int, length: int, wanted: int) -> tuple[int, int]:
        """Return the form to try for rows from token `first` of a sequence of `length`, and one for any numbers."""
        ends = first < SINK_TOKENS or first + self._tokens > length - RECENT_TOKENS
        part = PART if any(not numbers.size for numbers in self._planes_only(rows)) else 0
        part += STATE if any(numbers.size for numbers in rows[len(self._layout.planes) :]) else 0
        return part + (self.exact if ends else wanted), part + Form.RAW

    def size(self, form: int) -> int:
        """Return the size of a block in bytes."""
        return self._planes(form).size(form % PART) + self._states_size(form)

    def slot_bytes(self, form: int) -> int:
        """Return the slot size for blocks of a form: the size of most blocks, or more if states take many."""
        return max(self.size(form), -(-self._states_size(STATE) // MOST_SLOTS))

    def encode(self, rows: Sequence[Floats] | Floats, begin: int, form: int) -> Bytes:
        """Encode the block whose first token has the position `begin`: its planes, in their order, and its states.

        Raises ValueError if int8 cannot represent the numbers, which are not finite, if bf16 cannot, which has fewer
        digits, or if the rotations end before.
        """
        data = self._encode_planes(self._planes_only(rows), begin, form)
        if not form & STATE:
            return data
        states = rows[-1][0, 0, 0]
        return np.concatenate((data, np.ascontiguousarray(states, np.float32).view(np.uint8)))

    def _encode_planes(self, rows: Sequence[Floats], begin: int, form: int) -> Bytes:
        held, whole = self._planes(form), form % PART
        kept = [numbers for numbers, plane in zip(rows, self._layout.planes, strict=True) if plane in held.planes]
        if whole == Form.RAW:
            return held.joined(kept).view(np.uint8)
        if whole == Form.BF16:
            lower, upper = held.joined(kept).view("<u2").reshape(-1, 2).T
            if lower.any():
                raise ValueError("keys or values have more digits than bf16")
            return np.ascontiguousarray(upper).view(np.uint8)
        data = np.empty(held.size(whole), np.uint8)
        with np.errstate(over="ignore", invalid="ignore"):  # the scales show it
            for plane, numbers, into in zip(held.planes, kept, held.quantized(data), strict=True):
                _quantize(self._unrotated(plane, numbers, begin), _axis(plane), into.scales, into.numbers)
        return data

    def decode(self, data: Bytes, begin: int, form: int) -> KeysValues:
        """Decode what `encode` returned, a raw block as a view of `data`; raises ValueError if the size is wrong.

        What a part block lacks are planes of no tokens, and so are states that it lacks, of a model that has some.
        """
        if len(data) != self.size(form):
            raise ValueError(f"a block of {len(data)} bytes: form {form} takes {self.size(form)}")
        held, end = self._planes(form), len(data) - self._states_size(form)
        decoded = self._decoded(held, data[:end], begin, form % PART)
        if held is not self._whole:
            found = dict(zip(held.planes, decoded, strict=True))
            decoded = tuple(found.get(each, np.empty(each.shape(0), np.float32)) for each in self._layout.planes)
        if not self._layout.states:
            return decoded
        return *decoded, data[end:].view(np.float32).reshape(1, 1, -1, self._layout.state_numbers)

    def _planes_only(self, rows: Sequence[Floats] | Floats) -> Sequence[Floats]:
        return [*rows[: len(self._layout.planes)]]

    def _states_size(self, form: int) -> int:
        return FP32 * self._layout.state_numbers if form & STATE else 0

    def _decoded(self, held: _PlaneSet, data: Bytes, begin: int, form: int) -> KeysValues:
        if form == Form.RAW:
            return split(data.view(np.float32), held.placed)
        if form == Form.BF16:
            numbers = np.zeros(held.count, np.float32)
            numbers.view("<u2")[1::2] = data.view("<u2")
            return split(numbers, held.placed)
        decoded: KeysValues = split(np.empty(held.count, np.float32), held.placed)
        for plane, stored, into in zip(held.planes, held.quantized(data), decoded, strict=True):
            _scale(stored.numbers, stored.scales, into)
            if plane.rotated and self._rotations is not None:
                pairs = into.view(np.complex64)
                pairs *= self._turns(plane, self._rotations, begin)
        return decoded

    def _planes(self, form: int) -> _PlaneSet:
        return self._part if form & PART else self._whole

    def _unrotated(self, plane: Plane, numbers: Floats, begin: int) -> Floats:
        if not plane.rotated or self._rotations is None:
            return numbers
        turns = self._turns(plane, self._rotations, begin)
        return (numbers.view(np.complex64) * turns.conj()).view(np.float32)

    def _turns(self, plane: Plane, rotations: Rotations, begin: int) -> Turns:
        table = rotations[plane.rope]
        if not 0 <= begin <= len(table) - self._tokens:
            raise ValueError(f"a block at token {begin} is outside a context of {len(table)}")
        return table[begin : begin + self._tokens]


def _axis(plane: Plane) -> int:
    """Return along which axis the numbers of a plane share a scale: a channel of keys, a token of values."""
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
