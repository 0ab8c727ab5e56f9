"""Matrices of a checkpoint in fp32, several joined to one, with their biases."""

from __future__ import annotations

from typing import NamedTuple

from model_runtime.checkpoint.weights import Fp32, Weights, as_fp32


class Product(NamedTuple):
    """A matrix [out, in] and its bias [out]."""

    weight: Fp32
    bias: Fp32 | None


def joined_product(weights: Weights, names: list[str], biased: bool, scale: float = 1.0) -> Product:
    """Return matrices of these names, one after the other, times a scale, with their biases if they have some."""
    weight = as_fp32(*(weights[f"{name}.weight"] for name in names))
    bias = as_fp32(*(weights[f"{name}.bias"] for name in names)) if biased else None
    if scale == 1:  # no copy of a large matrix
        return Product(weight, bias)
    return Product(weight * scale, None if bias is None else bias * scale)
