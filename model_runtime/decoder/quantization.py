"""Formats of weights, and how these are rounded to fp16 or quantized to int8. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import widest_inputs
from model_runtime.checkpoint.tensors.compact import row_scales
from model_runtime.checkpoint.weights import Fp32, as_fp32
from model_runtime.errors import Fp16Overflow

Format = Literal["fp32", "fp16", "int8", "int8_groups", "int4"]
NamedFormat = Literal["fp32", "fp16", "int8", "int4"]  # that a user may ask for
GROUP = 32  # inputs of an output with one scale
LEAST_KEPT = 0.1  # of a matrix' groups, that rounding leaves as they are if they were rounded before
GROUP_BITS: dict[Format, int] = {"int4": 4, "int8_groups": 8}  # of a weight
FP16_MAX = 65504.0
MOST_INT8_INPUTS = (2**31 - 1) // 127**2  # of a product, whose sum of whole numbers must fit into 32 bits
ROWS_AT_ONCE = 4096  # rows of a matrix that are converted at once


def int8_too_wide(config: ModelConfig) -> str | None:
    """Return why int8 products cannot sum up a model's widest rows, or None if they can."""
    widest = max(config.hidden, *map(widest_inputs, set(config.layers)))
    return too_wide(widest) if widest > MOST_INT8_INPUTS else None


def too_wide(inputs: int) -> str:
    """Say that products of this many inputs are too wide."""
    return f"int8 products of {inputs:,} inputs overflow, {MOST_INT8_INPUTS:,} are the most"


def rounded_to_fp16(weight: npt.NDArray[Any]) -> npt.NDArray[np.float16]:
    """Round a weight to fp16; Fp16Overflow if it is beyond that format's range."""
    rounded = np.empty(weight.shape, dtype=np.float16)
    for part, rows in rows_of(weight):
        if max(-rows.min(), rows.max()) > FP16_MAX:
            raise Fp16Overflow("weights are beyond what fp16 holds: set weights to 'fp32' or 'int8'")
        rounded[part] = rows
    return rounded


def quantized(weight: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int8], Fp32]:
    """Quantize weight [out, in] to int8 [out, in] with a scale for each row, fp32 [out, 1]."""
    whole, scale = np.empty(weight.shape, dtype=np.int8), np.empty((len(weight), 1), dtype=np.float32)
    for part, rows in rows_of(weight):
        scale[part] = row_scales(np.maximum(rows.max(1), -rows.min(1)))
        digits = rows / scale[part]
        whole[part] = np.rint(digits, out=digits)
    return whole, scale


def grouped(weight: Fp32, bits: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Quantize weight [out, in] in groups of GROUP inputs, with scales [out, in / GROUP].

    The largest magnitude of a group becomes the lowest number of 4 bits, -8, as in ggml's Q4_0, and 127 of 8 bits, as
    in its Q8_0. Weights that were rounded by these stay as they are, even if -8 is not among them.
    """
    groups = weight.reshape(len(weight), -1, GROUP)
    largest, low = groups.max(2), groups.min(2)
    np.copyto(largest, low if bits == 4 else -low, where=-low >= largest)
    whole, scale = _rounded(groups, largest, -8 if bits == 4 else 127)
    if bits == 4 and (is_off := _differs(groups, whole, scale)).mean() < 1 - LEAST_KEPT:
        for most in (7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1):
            rows = groups[is_off][None]
            again = _rounded(rows, largest[is_off][None], most)
            fits = ~_differs(rows, *again)[0]
            at = tuple(axis[fits] for axis in np.nonzero(is_off))
            whole[at], scale[at] = again[0][0, fits], again[1][0, fits]
            is_off[at] = False
    return whole.reshape(weight.shape), scale


def _rounded(groups: Fp32, largest: Fp32, most: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Round groups [out, n, GROUP] with scales [out, n], of which the largest magnitude is `most`."""
    scale = np.divide(largest, most).astype(np.float16)
    if not np.isfinite(scale).all():
        raise Fp16Overflow("scales of weights are beyond what fp16 holds: set weights to 'fp32' or 'int8'")
    divisor = scale.astype(np.float32)[:, :, None]
    divisor[divisor == 0] = np.inf  # of a group of zeros
    digits = groups / divisor
    whole = np.rint(digits, out=digits).clip(-127 if most == 127 else -8, 127 if most == 127 else 7)
    return whole.astype(np.int8), scale


def _differs(groups: Fp32, whole: npt.NDArray[np.int8], scale: npt.NDArray[np.float16]) -> npt.NDArray[np.bool_]:
    """Return which groups [out, n] are changed by being rounded."""
    return (groups != whole * scale.astype(np.float32)[:, :, None]).any(2)


def rows_of(weight: npt.NDArray[Any]) -> Iterator[tuple[slice, Fp32]]:
    """Yield a matrix in parts as fp32: a whole head in it would be the most memory that loading takes."""
    for at in range(0, len(weight), ROWS_AT_ONCE):
        part = slice(at, at + ROWS_AT_ONCE)
        yield part, as_fp32(weight[part])
