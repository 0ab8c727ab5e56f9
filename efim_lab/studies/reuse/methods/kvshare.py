"""KVShare (arXiv 2503.16525): the rows whose values deviate most, weighted by the attention that they get."""

from __future__ import annotations

import numpy as np
import torch

from efim_lab.studies.reuse.methods.early_layers import CHECKED, largest, placed_rows
from efim_lab.studies.reuse.network import LayerKv, Network, attention, causal
from model_runtime.ids import Ids
from model_runtime.shelves.composition.composer import Composition

SHARE = 0.15


class KvShare:
    """Computes the share of rows again with the largest sums of attention times deviation of values.

    Its spans are those that every method gets here: found by hashes at any offset. The deviation needs queries, which
    decoders do not return, so a slower pass of torch's through the first layers computes it.
    """

    def __init__(self, early: Network) -> None:
        """Check with a network of the first layers."""
        self._early = early

    def rows(self, composition: Composition) -> Ids:
        """Return the rows with the largest scores."""
        start, arena, rows = composition.start, composition.arena, placed_rows(composition)
        past = [_past(arena.k[layer], arena.v[layer], start) for layer in range(CHECKED + 1)] if start else []
        _, traces = self._early.run(composition.ids[start:], past)
        (keys, values), queries, _ = traces[CHECKED]
        whole = torch.cat((past[CHECKED].k, keys), 1) if past else keys
        mass = attention(queries, whole, causal(len(queries), whole.shape[1])).sum((0, 1)).numpy()
        deviation = np.abs(values.numpy()[:, rows - start] - arena.v[CHECKED][:, rows]).sum((0, 2))
        return largest(rows, mass[rows] * deviation, SHARE)


def _past(k: np.ndarray, v: np.ndarray, start: int) -> LayerKv:
    return LayerKv(torch.as_tensor(k[:, :start]), torch.as_tensor(v[:, :start]))
