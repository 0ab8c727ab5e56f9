"""CacheBlend (arXiv 2405.16444): the rows whose keys deviate most are computed again."""

from __future__ import annotations

from efim_lab.studies.reuse.methods.early_layers import CHECKED, EarlyLayers, largest, placed_rows
from model_runtime.ids import Ids
from model_runtime.shelves.composition.composer import Composition

SHARE = 0.15


class CacheBlend:
    """Computes the share of rows again whose keys, at the checked layer, are farthest from the exact ones."""

    def __init__(self, early: EarlyLayers) -> None:
        """Check with a pass through the first layers."""
        self._early = early

    def rows(self, composition: Composition) -> Ids:
        """Return the rows with the largest squared distance of keys."""
        rows, exact = placed_rows(composition), self._early.computed(composition)
        deviation = exact.k[CHECKED][:, rows] - composition.arena.k[CHECKED][:, rows]
        return largest(rows, (deviation**2).sum((0, 2)), SHARE)
