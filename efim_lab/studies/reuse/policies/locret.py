"""Locret (arXiv 2410.01805): a small trained head says, from a row's own numbers, how much it will be attended to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from efim_lab.studies.reuse.network import LayerTrace, attention
from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, budget, kept_rows, top_rows

WIDTH, STEPS, BATCH, RATE = 64, 150, 1024, 2e-3


def locret(heads: Sequence[nn.Module]) -> Callable[[StoredContext, float], Kept]:
    """Return the policy that keeps, in each layer, the rows to which its head gives the largest scores."""

    @torch.inference_mode()
    def policy(context: StoredContext, share: float) -> Kept:
        scores = [head(_numbers(trace))[:, 0] for head, trace in zip(heads, context.traces, strict=True)]
        return kept_rows(context, top_rows(torch.stack(scores), budget(context, share)))

    return policy


def trained_heads(contexts: Sequence[StoredContext]) -> list[nn.Module]:
    """Train a head for each layer on contexts whose windows are known; the model's own weights stay as they are.

    The heads learn the logarithm of the attention that a row gets from the window's rows.
    """
    layers = len(contexts[0].traces)
    inputs, wanted = [list[torch.Tensor]() for _ in range(layers)], [list[torch.Tensor]() for _ in range(layers)]
    for context in contexts:
        _, traces = context.network.run(context.window, context.past)
        for layer, trace in enumerate(traces):
            mass = attention(trace.queries, context.past[layer].k).mean((0, 1))
            inputs[layer].append(_numbers(context.traces[layer]))
            wanted[layer].append(mass.clamp_min(1e-9).log())
    return [_trained(torch.cat(x), torch.cat(y)) for x, y in zip(inputs, wanted, strict=True)]


def _trained(inputs: torch.Tensor, wanted: torch.Tensor) -> nn.Module:
    with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType]
        torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
        head = nn.Sequential(nn.LayerNorm(inputs.shape[1]), nn.Linear(inputs.shape[1], WIDTH), nn.SiLU())
        head.append(nn.Linear(WIDTH, 1))
        inputs, wanted = inputs.clone(), ((wanted - wanted.mean()) / wanted.std()).clone()
        steps = torch.optim.Adam(head.parameters(), RATE)
        for _ in range(STEPS):
            chosen = torch.randint(len(inputs), (BATCH,))
            loss = F.smooth_l1_loss(head(inputs[chosen])[:, 0], wanted[chosen])
            steps.zero_grad()
            loss.backward()  # pyright: ignore[reportUnknownMemberType]
            steps.step()  # pyright: ignore[reportUnknownMemberType]
    return head


def _numbers(trace: LayerTrace) -> torch.Tensor:
    """Return the numbers of each row [rows, ..]: queries, keys and values."""
    (k, v), queries, _ = trace
    return torch.cat((queries.flatten(1), k.transpose(0, 1).flatten(1), v.transpose(0, 1).flatten(1)), 1)
