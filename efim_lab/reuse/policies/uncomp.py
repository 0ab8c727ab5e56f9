"""UNComp (arXiv 2410.03090): layers get budgets by the entropy of their keys."""

from __future__ import annotations

import torch

from efim_lab.reuse.policies.policy import Kept, StoredContext, budget, kept_rows, top_rows

TRUNCATED = 16  # largest eigenvalues that count


def uncomp(context: StoredContext, share: float) -> Kept:
    """Keep the most attended rows of each layer, more of those whose keys have a higher truncated matrix entropy.

    Heads that share a key share its fate: they cannot have budgets of their own.
    """
    entropies = torch.tensor([_entropy(trace.kv.k.flatten(0, 1)) for trace in context.traces])
    counts = entropies / entropies.sum() * budget(context, share) * len(context.traces)
    kept = [top_rows(mass, min(context.rows, int(n))) for mass, n in zip(context.mass, counts.tolist(), strict=True)]
    return kept_rows(context, torch.stack(kept))


def _entropy(keys: torch.Tensor) -> float:
    centred = keys - keys.mean(0)
    values = torch.linalg.eigvalsh(centred.T @ centred).flip(0)[:TRUNCATED].clamp_min(0)
    shares = values / values.sum()
    return float(-(shares * shares.clamp_min(1e-12).log()).sum())
