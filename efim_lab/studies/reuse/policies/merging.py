"""LOOK-M (arXiv 2406.18139): rows that are dropped are merged into the most similar row that is kept."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from efim_lab.studies.reuse.network import LayerKv
from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, budget, seen_in, top_rows


def lookm(context: StoredContext, share: float) -> Kept:
    """Keep the most attended rows of each layer; each becomes the mean of itself and the rows merged into it.

    The paper keeps all text and drops images; here there is text alone.
    """
    mask = top_rows(context.mass, budget(context, share))
    past = [_merged(trace.kv, kept) for trace, kept in zip(context.traces, mask, strict=True)]
    return Kept(past, seen_in(mask), mask.float().mean().item())


def _merged(kv: LayerKv, kept: torch.Tensor) -> LayerKv:
    k, v = kv.k.clone(), kv.v.clone()
    if kept.all() or not kept.any():
        return kv
    places = torch.nonzero(kept)[:, 0]
    for head in range(k.shape[0]):
        unit = F.normalize(kv.k[head], dim=1)
        nearest = places[(unit[~kept] @ unit[kept].T).argmax(1)]
        ones = torch.ones(len(k[head])).index_add(0, nearest, torch.ones(len(nearest)))[:, None]
        for numbers, original in ((k, kv.k), (v, kv.v)):
            numbers[head] = numbers[head].index_add(0, nearest, original[head][~kept]) / ones
    return LayerKv(k, v)
