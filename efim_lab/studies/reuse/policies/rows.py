"""Policies by single rows: nothing, random ones, the last ones, those that got most attention."""

from __future__ import annotations

import torch

from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, budget, kept_rows, random_scores, top_rows


def everything(context: StoredContext, _: float) -> Kept:
    """Keep all rows."""
    return Kept(context.past, None, 1.0)


def nothing(context: StoredContext, _: float) -> Kept:
    """Keep no row: the window alone."""
    return kept_rows(context, torch.zeros(context.mass.shape, dtype=torch.bool))


def random_rows(context: StoredContext, share: float) -> Kept:
    """Keep random rows, the same in all layers."""
    scores = random_scores(context.rows, context.seed)
    return kept_rows(context, top_rows(scores, budget(context, share)).expand(context.mass.shape))


def last_rows(context: StoredContext, share: float) -> Kept:
    """Keep the rows nearest to the window."""
    return kept_rows(
        context, (torch.arange(context.rows) >= context.rows - budget(context, share)).expand(context.mass.shape)
    )


def attended_rows(context: StoredContext, share: float) -> Kept:
    """Keep in each layer the rows that got most attention when the context was computed (H2O, arXiv 2306.14048)."""
    return kept_rows(context, top_rows(context.mass, budget(context, share)))
