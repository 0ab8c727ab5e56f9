"""Attention over latents whose numbers lie on several devices (TPLA, arXiv 2508.15881): the algebra of it.

Each device holds a part of every latent, and of every query that was brought to their space; all hold the rotated
keys. The sum of all parts' scores is exact, and takes an exchange of scores between devices for each layer. Without
it a device takes the others' parts to score as its own does, which is an approximation: a transform of the latents
makes it a better one, and changes nothing of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


class Shard(NamedTuple):
    """What one device has: parts of queries [rows, heads, part] and latents [tokens, part].

    `rotated` [rows, heads, tokens] are the scores of rotated keys, minus infinity where a row does not see a token.
    """

    queries: Array
    latents: Array
    rotated: Array


def hadamard(size: int) -> Array:
    """Return an orthogonal matrix that spreads each number over all: scaled ones and minus ones."""
    made = np.ones((1, 1), np.float32)
    while len(made) < size:
        made = np.block([[made, made], [made, -made]]) / np.sqrt(np.float32(2))
    if len(made) != size:
        raise ValueError(f"{size} is no power of two")
    return made


def principal_axes(latents: Array, count: int) -> Array:
    """Return the axes along which latents [tokens, rank] vary, dealt out to `count` shards, the widest first."""
    _, _, axes = np.linalg.svd(latents, full_matrices=True)
    return np.concatenate([axes[start::count] for start in range(count)]).T


def sharded(queries: Array, latents: Array, rotated: Array, transform: Array, count: int) -> list[Shard]:
    """Transform queries and latents by an orthogonal matrix [rank, rank], and cut them into equal parts."""
    asked, kept = (np.split(each @ transform, count, -1) for each in (queries, latents))
    return [Shard(*each, rotated) for each in zip(asked, kept, strict=True)]


def part_scores(shard: Shard) -> Array:
    """Return what a shard's numbers add to scores, [rows, heads, tokens]: their sum over all shards is exchanged."""
    return np.einsum("rhp,tp->rht", shard.queries, shard.latents)


def attend(shard: Shard, scores: Array) -> Array:
    """Return a shard's part of what heads find, [rows, heads, part], by the sum of scores of all shards."""
    scores = scores + shard.rotated
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("rht,tp->rhp", weights / weights.sum(-1, keepdims=True), shard.latents)


def attend_alone(shard: Shard, count: int) -> Array:
    """Return about the same without an exchange, as if each of the `count` shards scored as this one does."""
    return attend(shard, count * part_scores(shard))


def merged(parts: Sequence[Array], transform: Array) -> Array:
    """Return what heads find, [rows, heads, rank], of the parts that the shards have."""
    return np.concatenate(parts, -1) @ transform.T
