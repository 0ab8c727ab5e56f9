"""KVCOMM (arXiv 2510.12872): what a prefix adds to a chunk's keys and values is predicted from other prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from efim_lab.studies.reuse.scenarios import Scenario
from efim_lab.studies.reuse.subject import ReuseSubject
from model_runtime.ids import NO_IDS, Ids
from model_runtime.kv.arena import Arena
from model_runtime.shelves.composition.composer import Composition, moved

MOST_ANCHORS = 3  # of a chunk: each takes as many bytes as its keys and values
NEAR = 64  # tokens before a chunk that say which prefix it has

Floats = npt.NDArray[np.float32]


class Anchor(NamedTuple):
    """The change of a chunk by one prefix: `offset` [2, layers, kv_heads, tokens, head_dim], keys at place 0.

    `prefix` [head_dim] is the mean of the values, in layer 0, of the tokens just before: it depends on the tokens,
    not on their places.
    """

    prefix: Floats
    offset: Floats


class KvComm:
    """Adds to the keys and values of each chunk, computed alone, offsets learnt where it followed other texts."""

    def __init__(self, subject: ReuseSubject, scenario: Scenario) -> None:
        """Learn the offsets of a scenario's chunks from prompts that hold them in other orders."""
        self._subject, self._chunks = subject, scenario.chunks
        self._alone = {ids.tobytes(): subject.computed(ids) for _, ids in scenario.chunks}
        self._anchors: dict[bytes, list[Anchor]] = {key: [] for key in self._alone}
        chunks = [ids for _, ids in scenario.chunks]
        for shift in range(1, MOST_ANCHORS + 1):
            self._learn([*chunks[shift:], *chunks[:shift]])

    @property
    def bytes(self) -> int:
        """Memory that the anchors take."""
        return sum(anchor.offset.nbytes for each in self._anchors.values() for anchor in each)

    def rows(self, composition: Composition) -> Ids:
        """Correct the chunks' keys and values; no row is computed again."""
        arena, rotations = composition.arena, self._subject.decoder.rotations
        assert rotations is not None
        for start, ids in self._chunks:
            anchors, alone = self._anchors[ids.tobytes()], self._alone[ids.tobytes()]
            if start <= composition.start or not anchors:
                continue
            prefix = _prefix(arena, start)
            distances = np.array([np.linalg.norm(prefix - anchor.prefix) for anchor in anchors])
            weights = np.exp(distances.min() - distances)
            k, v = alone.copy_out(0, len(ids))
            for weight, anchor in zip(weights / weights.sum(), anchors, strict=True):
                k += np.float32(weight) * anchor.offset[0]
                v += np.float32(weight) * anchor.offset[1]
            rows = slice(start, start + len(ids))
            arena.k[:, :, rows], arena.v[:, :, rows] = moved(k, rotations[0], 0, start), v
        return NO_IDS

    def _learn(self, chunks: Sequence[Ids]) -> None:
        arena, start, rotations = self._subject.computed(np.concatenate(chunks)), 0, self._subject.decoder.rotations
        assert rotations is not None
        for ids in chunks:
            if start:
                k, v = arena.copy_out(start, start + len(ids))
                there = np.stack((moved(k, rotations[0], start, 0), v))
                offset = there - np.stack(self._alone[ids.tobytes()].copy_out(0, len(ids)))
                self._anchors[ids.tobytes()].append(Anchor(_prefix(arena, start), offset))
            start += len(ids)


def _prefix(arena: Arena, start: int) -> Floats:
    return arena.v[0, :, max(0, start - NEAR) : start].mean((0, 1))
