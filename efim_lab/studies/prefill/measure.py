"""Measures what prefill costs a model on one thread of this machine's CPU, by passes of several widths and depths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from efim_lab.gate.errors import WorkError
from efim_lab.studies.prefill.costs import PrefillCosts
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.families.layer_spec import Latent
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.layout import FP32, KvLayout
from model_runtime.loading.weight_format import choose_method

REPEATS = 7  # of each pass; the fastest counts, since others' work only adds to it
DEPTHS = 6  # positions that passes are measured at, evenly spread over the context
LONGEST = 4096  # tokens; beyond, the fitted line goes on


class Fit(NamedTuple):
    """Seconds of a pass: `fixed`, and for each token `token`, and `key` for each token before it.

    `error` is the mean of what the fit misses, as a share of the time.
    """

    fixed: float
    token: float
    key: float
    error: float


class MeasuredPrefill(NamedTuple):
    """A model's fit, its costs, and how it was computed."""

    fit: Fit
    costs: PrefillCosts
    decoder: str


def measure(folder: Path) -> MeasuredPrefill:
    """Measure a model's passes; raises WorkError or ModelError if that cannot be done."""
    config = read_config(folder)
    check_attends_to_all(config)
    config = replace(config, context=min(config.context, LONGEST))
    method, _ = choose_method(config, "auto")
    decoder = method.decoder(config, read_weights(folder, config), threads=1)
    fit = fitted(list(_passes(decoder, DenseArena(config, config.context))))
    return MeasuredPrefill(fit, costs_of(config, fit, decoder.chunk), str(method))


def check_attends_to_all(config: ModelConfig) -> None:
    """Raise WorkError if a token of a model does not attend to all tokens before it, in all layers."""
    if config.states or len(config.attentions) < len(config.layers):
        raise WorkError("the model's layers have states, which one device hands to the next: use one without")
    if any(layer.window for layer in config.layers):
        raise WorkError("layers of the model see a window alone: use a model that attends to all tokens")
    if config.foreign:
        raise WorkError(f"{config.family} is computed by transformers: use a model of our own decoders")


def _passes(decoder: AnyDecoder, arena: Arena) -> Iterator[tuple[int, int, float]]:
    """Yield widths, positions and seconds of passes of tokens that are drawn at random."""
    chunk, capacity = decoder.chunk, arena.capacity
    ids = np.random.default_rng(0).integers(0, decoder.config.vocab, capacity, dtype=np.int32)
    if capacity < 2 * chunk:
        raise WorkError(f"a context of {capacity} tokens is too short: use a model with {2 * chunk} or more")
    for position in sorted({(capacity - chunk) * step // (DEPTHS - 1) for step in range(DEPTHS)}):
        while arena.length < position:
            decoder.forward(ids[arena.length : min(arena.length + chunk, position)], arena)
        for width in (chunk // 4, chunk // 2, chunk):
            yield width, position, _seconds(decoder, arena, ids[position : position + width])


def _seconds(decoder: AnyDecoder, arena: Arena, ids: np.typing.NDArray[np.int32]) -> float:
    """Return the seconds of a pass, which is taken back."""
    position, times = arena.length, list[float]()
    for _ in range(REPEATS):
        begin = perf_counter()
        decoder.forward(ids, arena)
        times.append(perf_counter() - begin)
        arena.truncate(position)
    return min(times)


def fitted(passes: list[tuple[int, int, float]]) -> Fit:
    """Fit seconds of passes, given by width, position and time; what each misses counts as a share of its time."""
    widths, positions, seconds = map(np.array, zip(*passes, strict=True))
    terms = np.stack([np.ones(len(seconds)), widths, widths * positions + widths**2 / 2], axis=1)
    found = np.linalg.lstsq(terms / seconds[:, None], np.ones(len(seconds)), rcond=None)[0].clip(min=0)
    fixed, token, key = found.tolist()
    return Fit(fixed, token, key, float(np.abs(terms @ found / seconds - 1).mean()))


def costs_of(config: ModelConfig, fit: Fit, chunk: int) -> PrefillCosts:
    """Return the costs of a model whose passes have `chunk` tokens, with its numbers sent as fp32."""
    attention = config.attentions[0]
    found = attention.rank if isinstance(attention, Latent) else attention.head_dim
    return PrefillCosts(
        token=fit.token + fit.fixed / chunk,
        key=fit.key,
        layers=len(config.layers),
        chunk=chunk,
        kv_bytes=KvLayout.of(config).token_bytes,
        hidden_bytes=FP32 * config.hidden,
        partial_bytes=FP32 * attention.heads * (found + 2),
        score_bytes=FP32 * attention.heads if isinstance(attention, Latent) else 0,
    )
