"""Matrix products with weights prepared once: fp32, fp16 (FBGEMM) or int8; activations are fp32.

FBGEMM computes a row alone exactly as in a batch, so that a cached token equals a recomputed one; so do sums of whole
numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch.nn import functional as F

from model_runtime.checkpoint.tensors.compact import INT8_MAX, SMALLEST_DIVISOR
from model_runtime.decoder.quantization import FP16_MAX, MOST_INT8_INPUTS, Format, NamedFormat, quantized, too_wide
from model_runtime.decoder.tensors import as_array
from model_runtime.errors import ModelError

Linear = Callable[[torch.Tensor], torch.Tensor]
DIGIT_BASE = 254  # the base in which activations are written, with digits -127 .. 127


def packed_format() -> NamedFormat:
    """Return fp16, which loses next to nothing, or fp32 if this CPU or build of torch has no FBGEMM."""
    return "fp16" if "fbgemm" in torch.backends.quantized.supported_engines else "fp32"


def linear(weight: torch.Tensor, bias: torch.Tensor | None, form: Format) -> Linear:
    """Prepare `x -> x @ weight.T + bias`; weight [out, in], x [n, in] fp32 and contiguous."""
    if form == "int8":
        return _int8(weight, bias)
    weight = weight.float().contiguous()
    if form == "fp32" or weight.abs().max() > FP16_MAX:
        return lambda x: F.linear(x, weight, bias)
    return _fp16(weight, bias)


@cache
def int8_is_exact() -> bool:
    """Return whether products of int8 are summed without loss here: some CPUs saturate at 16 bits on the way."""
    size = 64
    largest = torch.full((size, size), 127, dtype=torch.int8)
    try:
        sums = torch._int_mm(largest[:2], largest)  # pyright: ignore
    except RuntimeError:  # not made for this device
        return False
    return bool((sums == size * 127**2).all())


def _int8(weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
    """Return a product by sums of whole numbers: only the weights are rounded, activations have three digits.

    With two, a last bit that differs before (torch's attention) becomes a step that reaches 0.003 in the logits.
    """
    if weight.shape[1] > MOST_INT8_INPUTS:
        raise ModelError(f"{too_wide(weight.shape[1])}: set weights to 'fp32' or 'fp16'")
    whole, scale = map(torch.as_tensor, quantized(as_array(weight)))
    columns, scale = whole.t(), scale.flatten()

    def product(x: torch.Tensor) -> torch.Tensor:
        largest = x.abs().amax(1, keepdim=True).clamp_min(SMALLEST_DIVISOR)
        rest = x / largest * (INT8_MAX * DIGIT_BASE**2)
        high = (rest / DIGIT_BASE**2).round_()
        rest = rest.sub_(high, alpha=DIGIT_BASE**2)
        middle = (rest / DIGIT_BASE).round_()
        low = rest.sub_(middle, alpha=DIGIT_BASE).round_()
        sums = torch._int_mm(torch.cat((high, middle, low)).to(torch.int8), columns)  # pyright: ignore
        first, second, third = sums.float().chunk(3)
        y = (
            first.mul_(DIGIT_BASE).add_(second).mul_(DIGIT_BASE).add_(third)
            * (largest / (INT8_MAX * DIGIT_BASE**2))
            * scale
        )
        return y if bias is None else y.add_(bias)

    return product


def _fp16(weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
    """Return a product by FBGEMM: for one thread by its older operator, whose calls take 1.3 us instead of 11."""
    product = getattr(torch, "fbgemm_linear_fp16_weight_fp32_activation", None)
    if product is None or torch.get_num_threads() > 1:
        packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        return lambda x: torch.ops.quantized.linear_dynamic_fp16(x, packed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "will be removed": the branch above is ready for it
        packed = torch.fbgemm_pack_gemm_matrix_fp16(weight)
        product(torch.zeros(1, weight.shape[1]), packed, bias)  # it warns at its first call, then no more
    return lambda x: product(x, packed, bias)
