"""UNComp (arXiv 2410.03090): layers get budgets by the entropy of their keys."""

from __future__ import annotations

import numpy as np
import torch

from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, budget, kept_rows, top_rows

TRUNCATED = 16  # largest eigenvalues that count


def uncomp(context: StoredContext, share: float) -> Kept:
    """Keep the most attended rows of each layer, more of layers whose keys have a higher truncated matrix entropy.

    Heads that share a key share its fate: they cannot have separate budgets.
    """
    entropies = [_entropy(trace.kv.k.flatten(0, 1)) for trace in context.traces]
    whole = budget(context, share) * len(entropies) / sum(entropies)
    kept = [
        top_rows(mass, min(context.rows, int(whole * entropy)))
        for mass, entropy in zip(context.mass, entropies, strict=True)
    ]
    return kept_rows(context, torch.stack(kept))


def _entropy(keys: torch.Tensor) -> float:
    centred = (keys - keys.mean(0)).numpy()
    values = np.linalg.eigvalsh(centred.T @ centred)[-TRUNCATED:].clip(0)
    shares = (values / values.sum()).clip(1e-12)
    return float(-(shares * np.log(shares)).sum())
