"""ILRe (arXiv 2508.17892) and FastKV (arXiv 2502.01068): a middle layer says which rows are worth a whole pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from efim_lab.studies.reuse.network import Narrowing, Network, attention
from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, budget, top_rows
from efim_lab.studies.reuse.policies.retrieval import pooled
from model_runtime.ids import Ids

ASKING = 16  # rows at the cursor whose queries choose


def ilre(early: Network) -> Callable[[StoredContext, float], Kept]:
    """Return a policy that recalls tokens by the last layer of `early`, and computes those alone from the start.

    It reads the window; the other layers never see the tokens that are not recalled.
    """
    middle = len(early.config.layers) - 1

    def policy(context: StoredContext, share: float) -> Kept:
        _, traces = early.run(context.window, context.past[: middle + 1])
        mass = attention(traces[middle].queries[-ASKING:], context.past[middle].k).sum((0, 1))
        recalled = torch.nonzero(top_rows(pooled(mass), budget(context, share)))[:, 0].numpy()
        _, again = context.network.run(context.ids[recalled])
        return Kept([trace.kv for trace in again], None, len(recalled) / context.rows)

    return policy


def fastkv(network: Network, prompt: Ids, answer: Ids, share: float) -> torch.Tensor:
    """Return logits after a prompt and its answer, of which only some rows pass the upper half of the layers.

    The rows at the cursor choose them; they and the rows of `answer` always go on.
    """
    asked = len(prompt) + len(answer) - 1

    def choose(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        first = len(prompt) - ASKING
        mass = attention(queries[first : len(prompt)], keys[:, :first]).sum((0, 1))
        kept = torch.cat((top_rows(pooled(mass), int(share * first)), torch.ones(asked - first, dtype=torch.bool)))
        return torch.nonzero(kept)[:, 0]

    row = np.concatenate((prompt, answer[:-1]))
    hidden, _ = network.run(row, narrowed=Narrowing(len(network.config.layers) // 2 - 1, choose))
    return network.logits(hidden[-len(answer) :])
