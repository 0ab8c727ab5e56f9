"""Matrix products on a device: of weights in its precision, or of whole numbers with a scale for each row.

Torch's own product of int8 weights, `_weight_int8pack_mm`, reads them anew for every row, some versions of it with no
two threads side by side. The product here is left to its compiler instead.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn import functional as F

from model_runtime.decoder.linear import quantized

FUSED_ROWS = 8  # rows that one kernel sums up while it reads the weights once
MOST_COMPILED = 16  # one for each few rows that are recorded and one for more, in either precision


class GpuProduct(Protocol):
    """A weight [out, in] on the device, ready to be multiplied with."""

    def __call__(self, x: torch.Tensor, /) -> torch.Tensor:
        """The product of x [rows, in] and the weight, [rows, out], in x's precision."""
        ...

    def logits(self, x: torch.Tensor, /) -> torch.Tensor:
        """The same in fp32: bf16 has too few digits to tell the likeliest tokens apart."""
        ...


class ScaledProduct(Protocol):
    """What `scaled` is."""

    def __call__(
        self, x: torch.Tensor, numbers: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype, /
    ) -> torch.Tensor: ...


class PlainProduct:
    """A product with a weight as it is."""

    def __init__(self, weight: torch.Tensor) -> None:
        """Keep the weight; nothing is copied."""
        self._weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Leave it to torch."""
        return F.linear(x, self._weight)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Sum up in fp32 and keep that."""
        return _exact(x, self._weight)


class Int8Product:
    """A product with whole numbers: half the bytes of bf16, and the weights' rounding is all that is lost."""

    def __init__(self, weight: torch.Tensor, device: torch.device, product: ScaledProduct) -> None:
        """Round the weight in the host's memory: fp32 copies of it may not fit on the device."""
        numbers, scale = quantized(weight.cpu().float())
        self._numbers, self._scale = numbers.to(device), scale[:, 0].to(device)
        self._product = product

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Sum up in fp32, then round."""
        return self._product(x, self._numbers, self._scale, x.dtype)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Sum up in fp32 and keep that."""
        return self._product(x, self._numbers, self._scale, torch.float32)


def scaled_product(x: torch.Tensor, numbers: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The product of x [rows, in] and int8 numbers [out, in], each times its row's scale [out] fp32; [rows, out].

    A few rows become sums over the same numbers, which a compiler makes one loop. For more, the numbers are first
    written in x's precision, which holds them exactly.
    """
    if len(x) > FUSED_ROWS:
        return (_exact(x, numbers.to(x.dtype)) * scale).to(dtype)
    return torch.stack([((numbers * row).sum(-1) * scale).to(dtype) for row in x.float().unbind()])


def compiled_product() -> ScaledProduct:
    """`scaled` as one kernel for each few rows; sizes are left open, so that all matrices share it.

    It is tuned by trial: without, sums over a matrix stay far below what the memory gives.
    """
    options = {"coordinate_descent_tuning": True}
    return torch.compile(scaled_product, dynamic=True, recompile_limit=MOST_COMPILED, options=options)  # pyright: ignore


def _exact(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """In fp32, whatever the precision of both."""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.mm(x, weight.t(), out_dtype=torch.float32)
    return F.linear(x.float(), weight.float())
