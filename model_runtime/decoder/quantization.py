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


def rows_of(weight: npt.NDArray[Any]) -> Iterator[tuple[slice, Fp32]]:
    """Yield a matrix in parts as fp32, each contiguous: a whole head in fp32 would be too much memory."""
    for at in range(0, len(weight), ROWS_AT_ONCE):
        part = slice(at, at + ROWS_AT_ONCE)
        yield part, np.ascontiguousarray(as_fp32(weight[part]))
