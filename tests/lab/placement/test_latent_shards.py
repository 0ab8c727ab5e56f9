"""Latents in parts on several devices: the sum of scores is exact, and a transform helps where there is no sum."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.studies.placement.latent_shards import (
    Array,
    Shard,
    attend,
    attend_alone,
    hadamard,
    merged,
    part_scores,
    principal_axes,
    sharded,
)

RANK = 64


def random_latents(seed: int, rows: int = 3, tokens: int = 40) -> tuple[Array, Array, Array]:
    """Queries, latents whose first numbers vary most, and rotated scores; each row sees one token more."""
    random = np.random.default_rng(seed)
    widths = np.exp(-np.arange(RANK, dtype=np.float32) / 8)
    queries = (random.standard_normal((rows, 4, RANK)) / 4).astype(np.float32)
    latents = random.standard_normal((tokens, RANK)).astype(np.float32) * widths
    rotated = random.standard_normal((rows, 4, tokens)).astype(np.float32)
    seen = np.arange(tokens) <= tokens - rows + np.arange(rows)[:, None]
    return queries, latents.astype(np.float32), np.where(seen[:, None], rotated, -np.inf).astype(np.float32)


def whole(queries: Array, latents: Array, rotated: Array) -> Array:
    return attend(Shard(queries, latents, rotated), np.einsum("rhp,tp->rht", queries, latents))


TRANSFORMS: dict[str, Callable[[Array], Array]] = {
    "none": lambda _: np.eye(RANK, dtype=np.float32),
    "hadamard": lambda _: hadamard(RANK),
    "axes": lambda latents: principal_axes(latents, 2),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=list(TRANSFORMS))
@given(seed=st.integers(0, 50), count=st.sampled_from((1, 2, 4)))
def test_the_sum_of_all_scores_is_exact(transform: Callable[[Array], Array], seed: int, count: int) -> None:
    queries, latents, rotated = random_latents(seed)
    turned = transform(latents)
    assert np.allclose(turned @ turned.T, np.eye(RANK), atol=1e-5)
    shards = sharded(queries, latents, rotated, turned, count)
    total = sum(map(part_scores, shards[1:]), part_scores(shards[0]))
    found = merged([attend(shard, total) for shard in shards], turned)
    assert np.allclose(found, whole(queries, latents, rotated), atol=1e-4)


def test_without_an_exchange_a_transform_brings_it_nearer() -> None:
    def error(name: str, seed: int) -> float:
        queries, latents, rotated = random_latents(seed)
        turned = TRANSFORMS[name](latents)
        parts = [attend_alone(each, 2) for each in sharded(queries, latents, rotated, turned, 2)]
        right = whole(queries, latents, rotated)
        return float(np.linalg.norm(merged(parts, turned) - right) / np.linalg.norm(right))

    mean = {name: np.mean([error(name, seed) for seed in range(20)]) for name in TRANSFORMS}
    assert max(mean["axes"], mean["hadamard"]) < mean["none"]


def test_one_shard_alone_is_exact() -> None:
    queries, latents, rotated = random_latents(0)
    [shard] = sharded(queries, latents, rotated, hadamard(RANK), 1)
    assert np.allclose(merged([attend_alone(shard, 1)], hadamard(RANK)), whole(queries, latents, rotated), atol=1e-4)


def _device(shard: Shard, line: Connection) -> None:
    """One of two devices: tell the scores, take their sum, and tell what was found."""
    line.send(part_scores(shard))
    line.send(attend(shard, line.recv()))


def test_two_processes_find_what_one_does() -> None:
    queries, latents, rotated = random_latents(1)
    transform, context = hadamard(RANK), get_context("spawn")
    lines, others = zip(*(context.Pipe() for _ in range(2)), strict=True)
    shards = sharded(queries, latents, rotated, transform, 2)
    processes = [context.Process(target=_device, args=each) for each in zip(shards, others, strict=True)]
    for process in processes:
        process.start()
    total = sum(line.recv() for line in lines)
    for line in lines:
        line.send(total)
    found = merged([line.recv() for line in lines], transform)
    for process in processes:
        process.join()
    assert np.allclose(found, whole(queries, latents, rotated), atol=1e-4)
