"""The first rows of each piece are computed again; the others are used as they are."""

from __future__ import annotations

import numpy as np

from model_runtime.ids import NO_IDS, Ids
from model_runtime.shelves.composition.method import Composition


class FirstRows:
    """Computes the first `count` rows of each piece again, and no others.

    With few rows that is EPIC (arXiv 2410.15332): a piece's first tokens drew the attention of all that follow when
    it was computed alone, and must not do so in the middle of a prompt. With 32 it is the contiguous repair of an
    edit: what follows a change most closely depends on it most. With 0 keys are rotated and nothing is repaired.
    """

    def __init__(self, count: int) -> None:
        """Compute `count` rows of each piece."""
        self._count = count

    def rows(self, composition: Composition) -> Ids:
        """Return the first rows of each piece, ascending."""
        firsts = [np.arange(p.new, p.new + min(self._count, p.length), dtype=np.int32) for p in composition.pieces]
        return np.concatenate(firsts) if firsts else NO_IDS
