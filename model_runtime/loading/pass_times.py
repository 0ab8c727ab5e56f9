"""Measures passes on this CPU, and says what keys cost by them, for people to read: no choice follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Experts, Mlp
from model_runtime.checkpoint.tensor_shapes import count_active, expected_shapes
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.weight_format import CpuMethod

TIMED_CONTEXT = 256  # tokens before the timed ones
TIMED_ROWS = (1, 4, 64)  # of a pass
TIMED_REPEATS = 5
SAMPLE_PARAMETERS = 1 << 24  # parameters of a sample: further layers cost what these do
SAMPLE_VOCAB = 4096
NOISE = 65_537  # numbers that a sample's weights repeat: their values do not affect the time
# By 2,980 keys with the embedded model: 2,080 typed into files of Python's own library, where suggestions at least
# 20 % likely are shown, and 900 of the Rust session that docs/benchmarks.md replays.
# Half of the keys take no more: they are typed through a suggestion, or diverge from it by a token. The median is no
# pass in Python and 0 to 1 in Rust; the means are 1.1 and 3.2. Half of them wait for no token of the prompt.
PASSES_OF_A_KEY = 1.0
OUTSIDE_MS = 0.5  # planning, tokenizing and filters; the median key in Python takes 0.6 in all
COLD_TOKENS = 1_200  # of a prompt with nothing kept, in the default window: the mean of both
COLD_PASSES = 4.0  # of one row, to decode what follows; the median


class PassTimes(NamedTuple):
    """Milliseconds of passes of 1, 4 and 64 rows, as `TIMED_ROWS` has them; of the last one row has logits."""

    one: float
    few: float
    many: float

    @property
    def row(self) -> float:
        """Milliseconds of one row of a wide pass."""
        return self.many / max(TIMED_ROWS)


def measure_passes(config: ModelConfig, ways: Sequence[CpuMethod], threads: int) -> dict[CpuMethod, PassTimes]:
    """Return each way's median times of passes, of a sample scaled up to the model's size; the ways take turns."""
    sample = _sample(config)
    few, many = (computed / _computed(sample) for computed in (_computed(config), _computed(config, logits=False)))
    larger = few, few, many
    noise = np.sin(np.arange(NOISE, dtype=np.float32) ** 2) * np.float32(0.02)
    weights: Weights = {name: np.resize(noise, shape) for name, shape in expected_shapes(sample).items()}
    runs = {way: _timer(way.decoder(sample, weights, threads), sample) for way in ways}
    times: dict[CpuMethod, list[list[float]]] = {way: [] for way in runs}
    for _ in range(TIMED_REPEATS):
        for way, run in runs.items():
            times[way].append(run())
    return {way: PassTimes(*map(mul, larger, map(median, zip(*turns, strict=True)))) for way, turns in times.items()}


def _computed(config: ModelConfig, logits: bool = True) -> int:
    """Return the parameters that a row is computed with: the embedding is read, and the head is only for logits."""
    matrix = config.vocab * config.hidden
    return count_active(config) - (0 if config.tied else matrix) - (0 if logits else matrix)


def _timer(decoder: AnyDecoder, config: ModelConfig) -> Callable[[], list[float]]:
    arena = DenseArena(config, config.context)
    ids = np.arange(config.context, dtype=np.int32) % config.vocab
    decoder.forward(ids[:TIMED_CONTEXT], arena)

    def one(rows: int) -> float:
        arena.truncate(TIMED_CONTEXT)
        began = perf_counter()
        decoder.forward(ids[:rows], arena, rows)  # logits of all rows: without them the last layer leaves rows out
        return (perf_counter() - began) * 1e3

    return lambda: [one(rows) for rows in TIMED_ROWS]


def _sample(config: ModelConfig) -> ModelConfig:
    """Return the model's shape with fewer layers, experts and tokens; times of the whole model are in proportion."""
    layers = [replace(layer, mlp=layer.mlp and _chosen(layer.mlp)) for layer in config.layers]
    sizes = accumulate(count_active(replace(config, layers=(layer,), vocab=1)) for layer in layers)
    count = sum(size <= SAMPLE_PARAMETERS for size in sizes)
    return replace(
        config,
        layers=tuple(layers[: max(1, count)]),
        vocab=min(config.vocab, SAMPLE_VOCAB),
        context=TIMED_CONTEXT + max(TIMED_ROWS),
    )


def _chosen(mlp: Mlp) -> Mlp:
    """Return a feed-forward part with as many experts as a token chooses: what takes time, and no more memory."""
    return replace(mlp, count=mlp.chosen, groups=1) if isinstance(mlp, Experts) else mlp


class KeyCosts(NamedTuple):
    """Milliseconds of a typical key, and of a cold place: the first key where nothing has been computed, or None."""

    typical: float
    cold: float | None


def key_costs(pass_ms: float, row_ms: float | None) -> KeyCosts:
    """Return their milliseconds, from the milliseconds of a pass of one row and of a row of a prompt's passes."""
    cold = None if row_ms is None else COLD_TOKENS * row_ms + COLD_PASSES * pass_ms + OUTSIDE_MS
    return KeyCosts(PASSES_OF_A_KEY * pass_ms + OUTSIDE_MS, cold)


def duration(ms: float) -> str:
    """Return milliseconds for people, with two digits: `0.8 ms`, `67 ms`, `1.3 s`."""
    if round(ms) >= 1000:
        return f"{ms / 1e3:,.{int(ms < 9_950)}f} s"
    return f"{ms:.{int(ms < 9.95)}f} ms"
