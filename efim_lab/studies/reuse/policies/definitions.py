"""Policies that keep whole definitions or none of their rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, budget, kept_rows, random_scores


def shotkv(context: StoredContext, share: float) -> Kept:
    """Keep the definitions whose rows got most attention on average (ShotKV, arXiv 2502.01941)."""
    scores = [context.mass[:, chunk.rows].mean().item() for chunk in context.chunks]
    return _whole(context, scores, share)


def random_definitions(context: StoredContext, share: float) -> Kept:
    """Keep random definitions."""
    scores = random_scores(len(context.chunks), context.seed)
    return _whole(context, [float(each) for each in scores], share)


def similar_definitions(context: StoredContext, share: float) -> Kept:
    """Keep the definitions that share most words with the window, which stand last: fewer texts, no policy of KV."""
    return _whole(context, list(range(len(context.chunks))), share)


def _whole(context: StoredContext, scores: Sequence[float], share: float) -> Kept:
    """Keep the definitions with the largest scores that fit."""
    room, mask = budget(context, share), torch.zeros(context.rows, dtype=torch.bool)
    for number in sorted(range(len(scores)), key=lambda number: -scores[number]):
        rows = context.chunks[number].rows
        if rows.stop - rows.start <= room:
            mask[rows] = True
            room -= rows.stop - rows.start
    return kept_rows(context, mask.expand(context.mass.shape))
