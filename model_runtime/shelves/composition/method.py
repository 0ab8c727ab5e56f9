"""Which of the rows that were put in place are computed again: the interface of all methods, and the usual one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from model_runtime.ids import NO_IDS, Ids
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
