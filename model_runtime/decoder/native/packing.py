"""Packs the weights of one product as the compiled part reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.weights import Fp32
from model_runtime.decoder.native.library import NativeMatrix
from model_runtime.decoder.quantization import GROUP, GROUP_BITS, Format, grouped, quantized, rounded_to_fp16, rows_of
from model_runtime.decoder.weights.product import Product

# Of a model's weights, as pass.h numbers them.
FORMS: dict[Format, int] = {"fp16": 0, "int8": 1, "int8_groups": 2, "int4": 2}
Zeros = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]
LAYOUT = 1  # of packed weights; it changes when files of them can no longer be read
OUTPUTS, INPUTS = 16, 64  # what both are rounded up to
NIBBLE_OFFSET = 8  # added to weights of 4 bits, which have no sign then: see groups.h


class PackedMatrix(NamedTuple):
    """Weights [outputs, inputs * bits / 8] in lanes, and a bias [outputs] or None.

    int8 has scales and sums [outputs]; weights in groups have scales [outputs, inputs / GROUP] in lanes.
    """

    weights: npt.NDArray[Any]
    scales: npt.NDArray[Any] | None
    sums: npt.NDArray[np.int32] | None
    bias: Fp32 | None

    def native(self) -> NativeMatrix:
        """Return the structure that points to these arrays, which must outlive it."""
        weights, *others = (0 if each is None else each.ctypes.data for each in self)
        outputs, inputs = self.weights.shape
        if self.scales is not None and self.scales.ndim == 2:
            inputs = self.scales.shape[1] * GROUP
        return NativeMatrix(weights, *others, outputs, inputs, 8 * self.weights.nbytes // (outputs * inputs))


def pack(product: Product, form: Format, zeros: Zeros) -> PackedMatrix:
    """Pack a product's weights into arrays that `zeros` allocates."""
    if form in GROUP_BITS:
        return _pack_groups(product, GROUP_BITS[form], zeros)
    weight, bias = product
    columns = weight.shape[1]
    outputs, inputs = round_up(len(weight), OUTPUTS), round_up(columns, INPUTS)
    whole, scale = quantized(weight) if form == "int8" else (rounded_to_fp16(weight), None)
    stored = zeros((outputs, inputs), whole.dtype)
    stored[: len(whole), :columns] = whole
    sums = None
    if form == "int8":
        sums = zeros((outputs,), np.int32)
        sums[:] = stored.sum(1, dtype=np.int32) * np.int32(128)
    _interleave(stored, 4 if form == "int8" else 1)
    return PackedMatrix(
        stored,
        None if scale is None else _padded(scale[:, 0], outputs, zeros),
        sums,
        None if bias is None else _padded(bias, outputs, zeros),
    )


def _pack_groups(product: Product, bits: int, zeros: Zeros) -> PackedMatrix:
    weight, bias = product
    columns = weight.shape[1]
    outputs, inputs = round_up(len(weight), OUTPUTS), round_up(columns, INPUTS)
    stored, scales = zeros((outputs, inputs * bits // 8), np.int8), zeros((outputs, inputs // GROUP), np.float16)
    for part, rows in rows_of(weight):
        wide = np.zeros((round_up(len(rows), OUTPUTS), inputs), np.float32)
        wide[: len(rows), :columns] = rows
        whole, scale = grouped(wide, bits)
        place = slice(part.start, part.start + len(wide))
        stored[place], scales[place] = _in_nibbles(whole) if bits == 4 else whole, scale
    _interleave(stored, 4)
    _interleave(scales, 1)
    return PackedMatrix(stored, scales, None, None if bias is None else _padded(bias, outputs, zeros))


def _in_nibbles(whole: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Put eight inputs into four bytes: four in the lower bits, and the next four in the higher ones."""
    eights = (whole + np.int8(NIBBLE_OFFSET)).view(np.uint8).reshape(len(whole), -1, 2, 4)
    return (eights[:, :, 0] | eights[:, :, 1] << 4).view(np.int8).reshape(len(whole), -1)


def round_up(size: int, unit: int) -> int:
    """Return the least multiple of a unit that is no less than `size`."""
    return -(-size // unit) * unit


def _padded(values: Fp32, length: int, zeros: Zeros) -> Fp32:
    stored = zeros((length,), np.float32)
    stored[: len(values)] = values
    return stored


def _interleave(weights: npt.NDArray[np.generic], inputs: int) -> None:
    """Lay weights [out, in] out as [out / 16, in / inputs, 16, inputs], in place."""
    rows = len(weights)
    lanes = weights.reshape(rows // 16, 16, -1, inputs).transpose(0, 2, 1, 3)
    weights[:] = np.ascontiguousarray(lanes).reshape(weights.shape)
