"""Matrix products on a device: with weights in its precision, or with int8 weights and a scale for each row.

Torch's own product with int8 weights, `_weight_int8pack_mm`, reads them again for every row, in some versions without
coalescing. The product here is left to torch's compiler instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch.nn import functional as F

from model_runtime.decoder.quantization import quantized
from model_runtime.decoder.tensors import as_array

FUSED_ROWS = 8  # most rows that one kernel computes while it reads the weights once
MOST_COMPILED = 16  # one for each recorded width up to FUSED_ROWS and one for wider passes, in either precision

ScaledProduct = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.dtype], torch.Tensor]


class GpuProduct(Protocol):
    """A product with a weight [out, in] on the device."""

    def __call__(self, x: torch.Tensor, /) -> torch.Tensor:
        """Return the product of x [rows, in] and the weight, [rows, out], in x's precision."""
        ...

    def logits(self, x: torch.Tensor, /) -> torch.Tensor:
        """Return the same in fp32: bf16 has too few digits to distinguish the likeliest tokens."""
        ...


class PlainProduct:
    """A product with a weight in its own precision."""

    def __init__(self, weight: torch.Tensor) -> None:
        """Keep the weight; nothing is copied."""
        self._weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply by torch."""
        return F.linear(x, self._weight)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply and return fp32."""
        return _exact(x, self._weight)


class Int8Product:
    """A product with int8 weights: half the bytes of bf16, and only the weights are rounded."""

    def __init__(self, weight: torch.Tensor, device: torch.device, product: ScaledProduct) -> None:
        """Quantize the weight in the host's memory: its fp32 copies may not fit on the device."""
        numbers, scale = map(torch.as_tensor, quantized(as_array(weight)))
        self._numbers, self._scale = numbers.to(device), scale[:, 0].to(device)
        self._product = product

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply in fp32 and round the result."""
        return self._product(x, self._numbers, self._scale, x.dtype)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply and return fp32."""
        return self._product(x, self._numbers, self._scale, torch.float32)


def scaled_product(x: torch.Tensor, numbers: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return x [rows, in] times int8 numbers [out, in] with an fp32 scale [out] a row; [rows, out].

    A few rows become sums over the same numbers, which a compiler fuses into one loop. For more, the numbers are
    first converted to x's precision, which holds them exactly.
    """
    if len(x) > FUSED_ROWS:
        return (_exact(x, numbers.to(x.dtype)) * scale).to(dtype)
    return torch.stack([((numbers * row).sum(-1) * scale).to(dtype) for row in x.float().unbind()])


def compiled_product() -> ScaledProduct:
    """Return `scaled_product` as one kernel for each small number of rows, shared by matrices of all sizes.

    It is tuned by trial: otherwise sums over a matrix stay far below the memory's bandwidth.
    """
    # Not by `torch.compile`'s own argument, which torch 2.11 lacks.
    torch.compiler.config.recompile_limit = max(torch.compiler.config.recompile_limit, MOST_COMPILED)
    return torch.compile(scaled_product, dynamic=True, options={"coordinate_descent_tuning": True})  # pyright: ignore


def _exact(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the product in fp32, whatever the precision of both."""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.mm(x, weight.t(), out_dtype=torch.float32)
    return F.linear(x.float(), weight.float())
