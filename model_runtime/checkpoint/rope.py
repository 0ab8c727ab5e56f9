"""Rotary position embedding (arXiv 2104.09864) and how models stretch it over longer texts."""

from __future__ import annotations

import math

import torch

from model_runtime.checkpoint.rope_parameters import Rope

COMPLEX64 = 8  # bytes


def rotations(rope: Rope, head_dim: int, tokens: int) -> torch.Tensor:
    """Return the complex rotations [tokens, head_dim / 2], all of length 1."""
    angles = torch.outer(torch.arange(tokens, dtype=torch.float32), frequencies(rope, head_dim))
    return torch.polar(torch.ones_like(angles), angles)


def rotation_bytes(head_dim: int, tokens: int) -> int:
    """Return the bytes that these rotations take."""
    return COMPLEX64 * tokens * (head_dim // 2)


def frequencies(rope: Rope, head_dim: int) -> torch.Tensor:
    """Return the radians per token [head_dim / 2], fp32."""
    powers = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    plain = rope.theta**-powers
    if rope.kind == "linear":
        return plain / rope.factor
    if rope.kind == "llama3":
        turns = rope.original * plain / (2 * math.pi)
        kept = ((turns - rope.slow) / (rope.fast - rope.slow)).clamp(0, 1)
    elif rope.kind == "yarn":
        kept = 1 - _ramp(rope, head_dim)
    else:
        return plain
    return plain / rope.factor * (1 - kept) + plain * kept


def _ramp(rope: Rope, head_dim: int) -> torch.Tensor:
    """Return a ramp from 0 at the dimension that turns `fast` times over the original context to 1 at `slow`."""
    first, last = (
        head_dim * math.log(rope.original / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))
        for turns in (rope.fast, rope.slow)
    )
    if rope.truncated:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    dimensions = torch.arange(head_dim // 2, dtype=torch.float32)
    return ((dimensions - first) / (last - first or 1e-3)).clamp(0, 1)
