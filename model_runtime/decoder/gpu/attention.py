"""Attention of a pass over the slab, by one function that is chosen once."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F
from xformers.ops.fmha import (  # pyright: ignore[reportMissingTypeStubs]
    Inputs,
    flash,
    triton_splitk,
)

from model_runtime.decoder.gpu.biases import Bias

# q [rows, heads, dim], k and v [slab rows, kv_heads, dim], which keys are seen, scale; [rows, heads * dim]
Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Bias, float], torch.Tensor]

LEAST_SPLIT_KEYS = 64  # fewest keys for one program of a split: a tile of the kernel
MOST_SPLITS = 64
BUSY_PROGRAMS = 256  # about two for each multiprocessor of an H200
SPLIT_DIMS = (16, 32, 64, 128, 256)


class AttentionChoice(NamedTuple):
    """The function that attends, its name, and why it was chosen."""

    attend: Attend
    backend: str
    reason: str


def choose_attention(device: torch.device, head_dim: int) -> AttentionChoice:
    """Choose xformers on a GPU and torch elsewhere."""
    if device.type != "cuda":
        return AttentionChoice(
            attend_materialized, "scaled_dot_product_attention", "xformers has no kernel for this device"
        )
    if reason := _no_splits(head_dim):
        return AttentionChoice(_with_xformers, "xformers flash", f"{reason}: single rows are slower")
    return AttentionChoice(
        _with_splits, "xformers flash, triton_splitK for single rows", "the fastest that xformers has"
    )


def attend_materialized(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float) -> torch.Tensor:
    """Attend by torch, with the bias as a tensor."""
    seen = bias.materialize((len(q), len(k)), dtype=q.dtype, device=q.device)
    one, two, three = (each.transpose(0, 1)[None] for each in (q, k, v))
    out = F.scaled_dot_product_attention(one, two, three, attn_mask=seen, scale=scale, enable_gqa=True)
    return out[0].transpose(0, 1).reshape(len(q), -1)


def attend_with(
    operator: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float
) -> torch.Tensor:
    """Attend by an operator of xformers; query heads that share a key head are a group, so keys are not repeated.

    Not by `memory_efficient_attention`, which refuses every operator if xformers' own library was built for another
    CUDA than torch. These operators need nothing of that library: one is torch's, the other Triton's.
    """
    q, k, v = grouped(q, k, v)
    out, _ = operator.apply(Inputs(query=q, key=k, value=v, attn_bias=bias, scale=scale), needs_gradient=False)
    return out.reshape(q.shape[1], -1)


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return views [1, rows, kv_heads, heads of a group, dim] of all three, as xformers expects them."""
    (rows, heads, dim), (total, kv_heads, _) = q.shape, k.shape
    group = heads // kv_heads
    shape = (1, total, kv_heads, group, dim)
    return (
        q.reshape(1, rows, kv_heads, group, dim),
        k[None, :, :, None].expand(shape),
        v[None, :, :, None].expand(shape),
    )


def split_operator(rows: int, kv_heads: int, longest: int) -> Any:
    """Return the operator for single rows that splits keys into enough parts to keep the device busy."""
    splits = 1
    while (
        splits < MOST_SPLITS and rows * kv_heads * splits < BUSY_PROGRAMS and longest >= 2 * splits * LEAST_SPLIT_KEYS
    ):
        splits *= 2
    return triton_splitk.FwOp.get_operator(splits)


def _with_xformers(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float) -> torch.Tensor:
    return attend_with(flash.FwOp, q, k, v, bias, scale)


def _with_splits(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float) -> torch.Tensor:
    """Attend single rows by split keys, others by flash.

    By itself xformers would take flash for single rows, too, where few programs would read all keys. The split kernel
    pads a block of several rows to 16.
    """
    if bias.q_seqinfo.max_seqlen > 1:
        return attend_with(flash.FwOp, q, k, v, bias, scale)
    return attend_with(split_operator(len(q), k.shape[1], bias.k_seqinfo.max_seqlen), q, k, v, bias, scale)


def _no_splits(head_dim: int) -> str | None:
    if head_dim not in SPLIT_DIMS:
        return f"triton_splitK has no kernel for a head_dim of {head_dim}"
    return None if find_spec("triton") else "triton is not installed"
