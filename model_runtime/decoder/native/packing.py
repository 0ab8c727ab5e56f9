"""Packs the weights of one product as the compiled part reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.weights import Fp32
from model_runtime.decoder.native.library import NativeMatrix
from model_runtime.decoder.quantization import Format, quantized, rounded_to_fp16
from model_runtime.decoder.weights.product import Product

Zeros = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]
LAYOUT = 1  # of packed weights; it changes when files of them can no longer be read
OUTPUTS, INPUTS = 16, 64  # what both are rounded up to


class PackedMatrix(NamedTuple):
    """Weights [outputs, inputs] in lanes; scales and sums [outputs] of int8, and a bias [outputs], or None."""

    weights: npt.NDArray[Any]
    scales: Fp32 | None
    sums: npt.NDArray[np.int32] | None
    bias: Fp32 | None

    def native(self) -> NativeMatrix:
        """Return the structure that points to these arrays, which must outlive it."""
        weights, *others = (0 if each is None else each.ctypes.data for each in self)
        return NativeMatrix(weights, *others, *self.weights.shape)


def pack(product: Product, form: Format, zeros: Zeros) -> PackedMatrix:
    """Pack a product's weights into arrays that `zeros` allocates."""
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
