"""Rotary position embedding (arXiv 2104.09864) and how models stretch it over longer texts."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.families.layer_spec import Rope

COMPLEX64 = 8  # bytes


def rotations(rope: Rope, head_dim: int, tokens: int) -> npt.NDArray[np.complex64]:
    """Return the complex rotations [tokens, head_dim / 2], all of length 1.

    Angles are fp32, as in published models; their cosines and sines are rounded from fp64, on every machine alike.
    """
    angles = np.outer(np.arange(tokens, dtype=np.float32), frequencies(rope, head_dim))
    turned = np.empty(angles.shape, dtype=np.complex64)
    turned.real, turned.imag = np.cos(angles, dtype=np.float64), np.sin(angles, dtype=np.float64)
    return turned


def rotation_bytes(head_dim: int, tokens: int) -> int:
    """Return the bytes that these rotations take."""
    return COMPLEX64 * tokens * (head_dim // 2)


def frequencies(rope: Rope, head_dim: int) -> npt.NDArray[np.float32]:
    """Return the radians per token [head_dim / 2], fp32; 0 for numbers that are not rotated."""
    found, rotated = np.zeros(head_dim // 2, np.float32), rope.rotated(head_dim)
    found[: rotated // 2] = _frequencies(rope, rotated)
    return found


def _frequencies(rope: Rope, head_dim: int) -> npt.NDArray[np.float32]:
    powers = np.arange(0, head_dim, 2, dtype=np.float32) / head_dim
    plain = (rope.theta ** -powers.astype(np.float64)).astype(np.float32)
    if rope.kind == "none":
        return np.zeros_like(plain)
    if rope.kind == "linear":
        return plain / rope.factor
    if rope.kind == "llama3":
        turns = rope.original * plain / (2 * math.pi)
        kept = ((turns - rope.slow) / (rope.fast - rope.slow)).clip(0, 1)
    elif rope.kind == "yarn":
        kept = 1 - _ramp(rope, head_dim)
    else:
        return plain
    return plain / rope.factor * (1 - kept) + plain * kept


def _ramp(rope: Rope, head_dim: int) -> npt.NDArray[np.float32]:
    """Return a ramp from 0 at the dimension that turns `fast` times over the original context to 1 at `slow`."""
    first, last = (
        head_dim * math.log(rope.original / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))
        for turns in (rope.fast, rope.slow)
    )
    if rope.truncated:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    dimensions = np.arange(head_dim // 2, dtype=np.float32)
    return ((dimensions - first) / (last - first or 1e-3)).clip(0, 1)
