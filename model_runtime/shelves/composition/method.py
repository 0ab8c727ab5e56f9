"""The one interface of all methods of composition: which of the rows that were put in place are computed again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.shelves.composition.pieces import MovedPiece


class Composition(NamedTuple):
    """An arena that holds the prompt `ids`: exact rows up to `start`, then `pieces` with their keys rotated to their
    new places, and rows between them whose keys and values are still missing.
    """

    arena: Arena
    ids: Ids
    start: int
    pieces: Sequence[MovedPiece]

    @property
    def missing(self) -> Ids:
        """The rows that no piece covers, ascending."""
        covered = np.zeros(len(self.ids), dtype=np.bool_)
        covered[: self.start] = True
        for piece in self.pieces:
            covered[piece.new : piece.new + piece.length] = True
        return np.flatnonzero(~covered).astype(np.int32)


class CompositionMethod(Protocol):
    """Chooses the rows of pieces that are computed again, after all that precede them in the prompt."""

    def rows(self, composition: Composition, /) -> Ids:
        """Return rows of pieces, ascending; may change the keys and values of pieces first."""
        ...
