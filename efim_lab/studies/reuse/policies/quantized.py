"""ZipCache (arXiv 2405.14256) and ZipVL (arXiv 2410.08584): salient rows as int8, the others as int4."""

from __future__ import annotations

import torch

from efim_lab.studies.reuse.network import LayerKv
from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, random_scores, top_rows

MASS = 0.975  # of a layer's attention, which ZipVL's salient rows get together
SALIENT = 0.4  # of the rows, in ZipCache
FP32, SCALE = 32, 32  # bits of a number and of a row's scale


def all_int8(context: StoredContext, _: float) -> Kept:
    """Keep all rows as int8."""
    return _coded(context, torch.ones(context.mass.shape, dtype=torch.bool))


def all_int4(context: StoredContext, _: float) -> Kept:
    """Keep all rows as int4."""
    return _coded(context, torch.zeros(context.mass.shape, dtype=torch.bool))


def zipcache(context: StoredContext, _: float) -> Kept:
    """Keep a fixed share of each layer's rows, the most attended, as int8."""
    return _coded(context, top_rows(context.mass, int(SALIENT * context.rows)))


def random_int8(context: StoredContext, _: float) -> Kept:
    """Keep the same share of random rows as int8."""
    scores = random_scores(context.rows, context.seed)
    return _coded(context, top_rows(scores, int(SALIENT * context.rows)).expand(context.mass.shape))


def zipvl(context: StoredContext, _: float) -> Kept:
    """Keep the fewest rows of each layer that got MASS of its attention as int8."""
    masks = list[torch.Tensor]()
    for mass in context.mass:
        whole = mass * torch.arange(len(mass), 0, -1)
        reached = torch.sort(whole, descending=True).values.cumsum(0) / whole.sum()
        masks.append(top_rows(whole, int((reached < MASS).sum()) + 1))
    return _coded(context, torch.stack(masks))


def _coded(context: StoredContext, eight: torch.Tensor) -> Kept:
    past = [
        LayerKv(_rounded(trace.kv.k, mask), _rounded(trace.kv.v, mask))
        for trace, mask in zip(context.traces, eight, strict=True)
    ]
    width = context.traces[0].kv.k.shape[-1]
    share = eight.float().mean().item()
    return Kept(past, None, ((8 * share + 4 * (1 - share)) * width + SCALE) / (FP32 * width))


def _rounded(numbers: torch.Tensor, eight: torch.Tensor) -> torch.Tensor:
    """Round numbers [kv_heads, rows, head_dim] row by row, after channels are made alike as ZipCache does."""
    channels = numbers.abs().amax(1, keepdim=True).sqrt().clamp_min(1e-6)
    alike = numbers / channels
    most = torch.where(eight, 127.0, 7.0)[None, :, None]
    scales = alike.abs().amax(2, keepdim=True).clamp_min(1e-9) / most
    return (alike / scales).round() * scales * channels
