"""Matrix products with weights prepared once: fp32, or fp32 activations with fp16-packed weights (FBGEMM).

FBGEMM gives a row computed alone exactly what it gets in a batch, so that a cached token equals a recomputed one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch.nn import functional as F

Format = Literal["fp32", "fp16"]
Linear = Callable[[torch.Tensor], torch.Tensor]
FP16_MAX = 65504.0


def choose_format(wanted: Literal["auto", "fp32", "fp16"]) -> tuple[Format, str]:
    """Return the weight format to use on this CPU and the reason, for the log and `doctor`."""
    if wanted == "fp32":
        return "fp32", "asked for by the setting"
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        return "fp32", "this CPU or torch build has no FBGEMM"
    return "fp16", "asked for by the setting" if wanted == "fp16" else "FBGEMM packs half the bytes to read"


def linear(weight: torch.Tensor, bias: torch.Tensor | None, form: Format) -> Linear:
    """Prepare `x -> x @ weight.T + bias`; weight [out, in], x [n, in] fp32 and contiguous."""
    if form == "fp32" or weight.abs().max() > FP16_MAX:
        kept = weight.float().contiguous()
        return lambda x: F.linear(x, kept, bias)
    return _packed(weight.float().contiguous(), bias)


def _packed(weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
    """The older FBGEMM operator calls in 1.3 us where its successor takes 11, to the same bits."""
    product = getattr(torch, "fbgemm_linear_fp16_weight_fp32_activation", None)
    if product is None:
        packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        return lambda x: torch.ops.quantized.linear_dynamic_fp16(x, packed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "will be removed": the branch above is ready for it
        packed = torch.fbgemm_pack_gemm_matrix_fp16(weight)
        product(torch.zeros(1, weight.shape[1]), packed, bias)  # it warns at its first call, then no more
    return lambda x: product(x, packed, bias)
