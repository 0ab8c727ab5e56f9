"""Matrices of int8 digits, and the numbers that these stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Fp32 = npt.NDArray[np.float32]

INT8_MAX = 127.0
SMALLEST_DIVISOR = float(np.finfo(np.float32).tiny)  # a row of zeros must be divided by something


class QuantizedRows(NamedTuple):
    """A matrix as `digits` [out, in], and the `largest` magnitude [out] of each row, which 127 stands for."""

    digits: npt.NDArray[np.int8]
    largest: Fp32

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix."""
        return self.digits.shape

    def widened(self) -> Fp32:
        """Return the matrix in fp32. If fp16 holds `largest`, `quantized` makes the same digits and scales of it."""
        return self.digits * row_scales(self.largest)


def row_scales(largest: Fp32) -> Fp32:
    """Return what the digits of each row are multiplied by, [out, 1]."""
    divided: Fp32 = np.maximum(largest[:, None], np.float32(SMALLEST_DIVISOR))
    return divided / np.float32(INT8_MAX)
