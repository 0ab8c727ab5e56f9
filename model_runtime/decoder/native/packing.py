"""Packs the weights of one product as the compiled part reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import CDLL
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.weights import Fp32
from model_runtime.decoder.native.library import NativeMatrix, library
from model_runtime.decoder.quantization import GROUP, GROUP_BITS, Format, rounded_to_fp16, rows_of
from model_runtime.decoder.weights.product import Product
from model_runtime.errors import Fp16Overflow

# Of a model's weights, as pass.h numbers them.
FORMS: dict[Format, int] = {"fp16": 0, "int8": 1, "int8_groups": 2, "int4": 2}
Zeros = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]
LAYOUT = 1  # of packed weights; it changes when files of them can no longer be read
OUTPUTS, INPUTS = 16, 64  # what both are rounded up to


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
    """Pack a product's weights into arrays that `zeros` allocates; Fp16Overflow where fp16 does not hold them."""
    weight, bias = product
    outputs, inputs = round_up(len(weight), OUTPUTS), round_up(weight.shape[1], INPUTS)
    own_bias = None if bias is None else _padded(bias, outputs, zeros)
    if form in GROUP_BITS:
        return PackedMatrix(*_packed_groups(weight, GROUP_BITS[form], outputs, inputs, zeros), None, own_bias)
    if form == "int8":
        return PackedMatrix(*_packed_rows(weight, outputs, inputs, zeros), own_bias)
    stored = zeros((outputs, inputs), np.float16)
    stored[: len(weight), : weight.shape[1]] = rounded_to_fp16(weight)
    lanes = stored.reshape(outputs // OUTPUTS, OUTPUTS, inputs).transpose(0, 2, 1)
    stored[:] = np.ascontiguousarray(lanes).reshape(stored.shape)
    return PackedMatrix(stored, None, None, own_bias)


def _packed_groups(
    weight: npt.NDArray[Any], bits: int, outputs: int, inputs: int, zeros: Zeros
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    stored, scales = zeros((outputs, inputs * bits // 8), np.int8), zeros((outputs, inputs // GROUP), np.float16)
    for part, rows in rows_of(weight):
        if not _compiled().efim_pack_groups(*_sized(rows), bits, inputs, *_addresses(stored[part], scales[part])):
            raise Fp16Overflow("scales of weights are beyond what fp16 holds: set weights to 'fp32' or 'int8'")
    return stored, scales


def _packed_rows(
    weight: npt.NDArray[Any], outputs: int, inputs: int, zeros: Zeros
) -> tuple[npt.NDArray[np.int8], Fp32, npt.NDArray[np.int32]]:
    stored, scales = zeros((outputs, inputs), np.int8), zeros((outputs,), np.float32)
    sums = zeros((outputs,), np.int32)
    for part, rows in rows_of(weight):
        _compiled().efim_pack_rows(*_sized(rows), inputs, *_addresses(stored[part], scales[part], sums[part]))
    return stored, scales, sums


def _compiled() -> CDLL:
    lib = library()
    assert not isinstance(lib, str), lib  # or there is no reader of packed weights
    return lib


def _sized(rows: Fp32) -> tuple[int, int, int]:
    """Return the address and the shape of rows, which must be contiguous."""
    assert rows.flags.c_contiguous
    return rows.ctypes.data, *rows.shape


def _addresses(*arrays: npt.NDArray[Any]) -> Iterator[int]:
    return (each.ctypes.data for each in arrays)


def round_up(size: int, unit: int) -> int:
    """Return the least multiple of a unit that is no less than `size`."""
    return -(-size // unit) * unit


def _padded(values: Fp32, length: int, zeros: Zeros) -> Fp32:
    stored = zeros((length,), np.float32)
    stored[: len(values)] = values
    return stored
