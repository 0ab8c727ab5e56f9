"""The one interface of all policies, and their view of a stored context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch

from efim_lab.studies.reuse.network import LayerKv, LayerTrace, Network, Seen, attention, causal
from model_runtime.ids import Ids


class StoredChunk(NamedTuple):
    """An excerpt in a context: its rows, and the text with its path."""

    rows: slice
    path: str
    text: str


@dataclass(frozen=True)
class StoredContext:
    """Excerpts computed one after the other, and the attention of their rows meanwhile.

    `mass` [layers, rows] is the attention that a row got from each row that could see it, on average. A policy that
    is asked when a segment is stored does not know the `window`, the prompt's tokens after the excerpts; a
    policy that reads it says so.
    """

    network: Network
    ids: Ids
    chunks: Sequence[StoredChunk]
    traces: Sequence[LayerTrace]
    mass: torch.Tensor
    window: Ids
    window_text: str
    seed: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.ids)

    @property
    def past(self) -> list[LayerKv]:
        """All keys and values."""
        return [trace.kv for trace in self.traces]


class Kept(NamedTuple):
    """The keys and values that a policy keeps, which of them each layer may see, and their bytes.

    `bytes` is a share of the bytes of all keys and values as fp32.
    """

    past: Sequence[LayerKv]
    seen: Seen | None
    bytes: float


class BudgetPolicy(Protocol):
    """Fits a context into a share of its rows; deterministic."""

    def __call__(self, context: StoredContext, share: float, /) -> Kept:
        """Return the part of the context to keep."""
        ...


def kept_rows(context: StoredContext, mask: torch.Tensor) -> Kept:
    """Return a context of which the rows in a bool mask [layers, rows] are left."""
    return Kept(context.past, seen_in(mask), mask.float().mean().item())


def seen_in(mask: torch.Tensor) -> Seen:
    """Return what says that each layer sees the rows in its part of a mask [layers, rows], whatever it asks."""

    def seen(layer: int, _: torch.Tensor) -> torch.Tensor:
        return mask[layer]

    return seen


def random_scores(count: int, seed: int) -> torch.Tensor:
    """Return numbers from 0 to 1 [count], the same for the same seed."""
    return torch.as_tensor(np.random.default_rng(seed).random(count))


def top_rows(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Return the mask of the `count` rows with the largest scores [.., rows], of equal ones the first."""
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :count]
    return torch.zeros(scores.shape, dtype=torch.bool).scatter(-1, order, True)


def budget(context: StoredContext, share: float) -> int:
    """Return how many rows a share is."""
    return int(share * context.rows)


def attention_mass(traces: Sequence[LayerTrace]) -> torch.Tensor:
    """Return the mean attention [layers, rows] of the rows that see a row, itself included."""
    masses = list[torch.Tensor]()
    for (keys, _), queries, _ in traces:
        count = len(queries)
        weights = attention(queries, keys, causal(count, count))
        masses.append(weights.mean(0).sum(0) / torch.arange(count, 0, -1))
    return torch.stack(masses)
