"""SparseVILA (arXiv 2510.17777): nothing is dropped; each layer reads the blocks that suit the cursor."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, budget, top_rows

BLOCK = 16  # rows that are read or left out together
ASKING = 16  # rows at the cursor whose queries choose


def sparsevila(context: StoredContext, share: float) -> Kept:
    """Keep all rows, and read in each layer the blocks with the largest bound of attention at the cursor.

    A block is summed up by the least and largest number of each channel of its keys, as in Quest (arXiv 2406.10774).
    """
    bounds = [_bounds(trace.kv.k) for trace in context.traces]
    count = max(1, budget(context, share) // BLOCK)

    def seen(layer: int, queries: torch.Tensor) -> torch.Tensor:
        low, high = bounds[layer]
        kv_heads, asking = low.shape[0], queries[-ASKING:]
        grouped = asking.view(len(asking), kv_heads, -1, asking.shape[-1]).transpose(0, 1).flatten(1, 2)
        score = grouped.clamp_min(0) @ high.transpose(1, 2) + grouped.clamp_max(0) @ low.transpose(1, 2)
        blocks = top_rows(score.softmax(-1).sum((0, 1)), count)
        return blocks.repeat_interleave(BLOCK)[: context.rows]

    return Kept(context.past, seen, 1.0)


def _bounds(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    missing = -keys.shape[1] % BLOCK
    padded = torch.cat((keys, keys[:, -1:].expand(-1, missing, -1)), 1) if missing else keys
    blocks = padded.view(keys.shape[0], -1, BLOCK, keys.shape[2])
    return blocks.amin(2), blocks.amax(2)


def pooled(scores: torch.Tensor, kernel: int = 5) -> torch.Tensor:
    """Return scores [rows] smoothed over their neighbours, so that words are kept whole."""
    return F.avg_pool1d(scores[None, None], kernel, 1, kernel // 2, count_include_pad=False)[0, 0]
