"""Attention of new rows over an arena's contiguous keys and values, behind one function."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F


def causal_bias(new: int, total: int, groups: int) -> torch.Tensor | None:
    """Return the bias [groups * new, total] that lets new row i see keys 0 .. total - new + i; None if all are seen.

    The query heads that share a key head are laid out as further rows (see `attend`), hence `groups`. Built once
    a forward pass: the mask that torch builds from `causal_lower_right` on CPUs would be rebuilt in every layer.
    """
    if new == 1:
        return None
    seen = torch.ones(new, total, dtype=torch.bool).tril(total - new)
    bias = torch.zeros(new, total).masked_fill_(~seen, float("-inf"))
    return bias.repeat(groups, 1)


def bias_of_rows(rows: torch.Tensor, begins: torch.Tensor, total: int, groups: int) -> torch.Tensor:
    """Return the bias [groups * new, total] that lets each of the rows [new] see keys from its begin to its own."""
    keys = torch.arange(total)
    seen = (keys <= rows[:, None]) & (keys >= begins.reshape(-1, 1))
    return torch.zeros(seen.shape).masked_fill_(~seen, float("-inf")).repeat(groups, 1)


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """Attend q [new, heads, dim] to k, v [kv_heads, total, dim]; returns [new, heads * dim].

    Query heads of one key head become rows of one product, so that keys are read once a group and never repeated.
    """
    new, heads, dim = q.shape
    kv_heads = k.shape[0]
    rows = q.transpose(0, 1).reshape(1, kv_heads, heads // kv_heads * new, dim)
    out = F.scaled_dot_product_attention(rows, k[None], v[None], attn_mask=bias, scale=scale)
    return out.view(heads, new, dim).transpose(0, 1).reshape(new, heads * dim)


def attend_by_row(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    seen: Sequence[tuple[int, int]],
    scale: float,
    cap: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attend each row of q [new, heads, dim] to the keys that it has `seen`; returns [new, heads * dim].

    Scores are capped unless `cap` is 0, and `sinks` [heads] take their shares. One row after the other, each over
    its own keys alone: torch's fused attention knows neither, and a row's bits shall not depend on its company.
    """
    made = list[torch.Tensor]()
    for row, (begin, end) in zip(q, seen, strict=True):
        keys, values = k[:, begin:end], v[:, begin:end]
        scores = row.view(len(k), -1, row.shape[-1]) @ keys.transpose(1, 2) * scale
        if cap:
            scores = cap * torch.tanh(scores / cap)
        if sinks is not None:
            scores = torch.cat((scores, sinks.view(len(k), -1, 1)), -1)
        made.append((scores.softmax(-1)[..., : end - begin] @ values).view(-1))
    return torch.stack(made)
