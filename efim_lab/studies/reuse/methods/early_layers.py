"""A pass through the first layers alone, which shows how far rows that were put in place deviate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from efim_lab.studies.reuse.subject import ReuseSubject, decoder_of
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.shelves.composition.composer import Composition

CHECKED = 1  # the layer whose keys and values are compared: in layer 0 they follow from the tokens alone


class EarlyLayers:
    """The first layers of a model as a separate decoder.

    The papers select in the pass itself, layer by layer; here the arena has one selection of rows for all layers,
    made by this pass before it. `share` is its share of a whole pass' cost.
    """

    def __init__(self, subject: ReuseSubject) -> None:
        """Prepare the first two layers."""
        config = replace(subject.config, layers=subject.config.layers[: CHECKED + 1])
        self._decoder, self._config = decoder_of(config, subject.weights), config
        self.share = len(config.layers) / len(subject.config.layers)

    def computed(self, composition: Composition) -> Arena:
        """Return the first layers' keys and values of the prompt, exact."""
        arena = DenseArena(self._config, self._config.context)
        start, layers = composition.start, len(self._config.layers)
        for mine, theirs in ((arena.k, composition.arena.k), (arena.v, composition.arena.v)):
            mine[:, :, :start] = theirs[:layers, :, :start]
        arena.append(composition.ids[:start])
        for at in range(start, len(composition.ids), self._decoder.chunk):
            self._decoder.forward(composition.ids[at : min(at + self._decoder.chunk, len(composition.ids))], arena)
        return arena


def placed_rows(composition: Composition) -> Ids:
    """Return the rows that were put in place, ascending."""
    parts = [np.arange(piece.new, piece.new + piece.length, dtype=np.int32) for piece in composition.pieces]
    return np.concatenate(parts)


def largest(rows: Ids, scores: npt.NDArray[np.float32], share: float) -> Ids:
    """Return this share of the rows, those with the largest scores [rows], ascending."""
    count = round(share * len(rows))
    return np.sort(rows[np.argsort(-scores, kind="stable")[:count]])
