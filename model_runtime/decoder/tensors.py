"""Passes weights between numpy and torch without a copy: numpy has no bf16, see `checkpoint.weights`."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch

from model_runtime.checkpoint.weights import BF16, Fp32
from model_runtime.decoder.weights.layer import Norm


def as_tensor(weight: npt.NDArray[Any]) -> torch.Tensor:
    """Return the tensor that shares a weight's memory."""
    if weight.dtype == BF16:
        return torch.as_tensor(weight.view("<u2")).view(torch.bfloat16)
    return torch.as_tensor(weight)


def as_array(weight: torch.Tensor) -> npt.NDArray[Any]:
    """Return the array that shares a weight's memory; a weight on another device is copied."""
    here = weight.detach().cpu()
    return here.view(torch.uint16).numpy().view(BF16) if here.dtype == torch.bfloat16 else here.numpy()


def norm_tensors(norm: Norm[Fp32]) -> Norm[torch.Tensor]:
    """Return a norm's weights as tensors."""
    return Norm(as_tensor(norm.weight), None if norm.bias is None else as_tensor(norm.bias))
