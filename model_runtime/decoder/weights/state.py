"""Joins the weights of layers' states as decoders compute with them, in one order for all families."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Lookback, Recurrence, State
from model_runtime.checkpoint.weights import Fp32, Weights, as_fp32
from model_runtime.decoder.weights.product import Product


class StateWeights(NamedTuple):
    """What a layer's state computes with, in fp32.

    `first` [outputs, hidden] gives, one after the other, what the convolution reads, [channels], gates, [inner], and
    steps, [heads]. By the rule "correct" sizes of corrections, [heads], follow. For a convolution without memory it
    gives inputs, what multiplies them, and gates, [channels] each. Channels are values, keys and queries.

    `conv` is [kernel, channels], the oldest token first. A step is softplus of its number and `step_bias` [heads]; by
    e to the step times `rates` [heads] a head's memory fades. `skip` [heads] of its value is added to what a head
    reads. `norm` is [inner]. What there is none of is None.
    """

    first: Product
    conv: Fp32
    conv_bias: Fp32 | None
    step_bias: Fp32 | None
    rates: Fp32 | None
    skip: Fp32 | None
    norm: Fp32 | None
    out: Product


def state_weights(config: ModelConfig, spec: State, weights: Weights, at: str) -> StateWeights | None:
    """Join the weights of one layer's state, whose names begin with `at`; None if its attention computes it."""
    if isinstance(spec, Lookback):
        return None

    def found(name: str) -> Fp32 | None:
        return as_fp32(weights[at + name]) if at + name in weights else None

    conv, order = as_fp32(weights[f"{at}conv1d.weight"])[:, 0], _channel_order(spec)
    conv_bias, rates = found("conv1d.bias"), found("A_log")
    return StateWeights(
        first=_first(spec, weights, at),
        conv=np.ascontiguousarray(conv[order].T),
        conv_bias=None if conv_bias is None else conv_bias[order],
        step_bias=found("dt_bias"),
        rates=None if rates is None else -np.exp(rates),
        skip=found("D"),
        norm=_norm(spec, found("norm.weight")),
        out=_out(config, spec, weights, at),
    )


def _first(spec: State, weights: Weights, at: str) -> Product:
    if isinstance(spec, Recurrence) and spec.rule == "correct":
        return Product(_of_correction(spec, weights, at), None)
    weight, bias = as_fp32(weights[f"{at}in_proj.weight"]), weights.get(f"{at}in_proj.bias")

    def ordered(rows: Fp32) -> Fp32:
        return _of_addition(spec, rows) if isinstance(spec, Recurrence) else _of_conv(rows)

    return Product(ordered(weight), None if bias is None else ordered(as_fp32(bias)))


def _of_conv(rows: Fp32) -> Fp32:
    """Order rows that a checkpoint has as multipliers, gates and inputs."""
    multipliers, gates, inputs = np.split(rows, 3)
    return np.concatenate((inputs, multipliers, gates))


def _of_addition(spec: Recurrence, rows: Fp32) -> Fp32:
    """Order rows that a checkpoint has as gates, values, keys, queries and steps, and scale them."""
    sizes = spec.inner, spec.inner, spec.groups * spec.key, spec.groups * spec.key, spec.heads
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    gates, *channels, steps = [
        part if scale == 1 else part * np.float32(scale) for part, scale in zip(parts, spec.scales, strict=True)
    ]
    return np.concatenate((*channels, gates, steps))


def _of_correction(spec: Recurrence, weights: Weights, at: str) -> Fp32:
    """Order rows that a checkpoint has by group of heads: queries, keys, values and gates; corrections and steps."""
    per_group, values = spec.heads // spec.groups, spec.heads // spec.groups * spec.value
    both = as_fp32(weights[f"{at}in_proj_qkvz.weight"])
    by_group = both.reshape(spec.groups, -1, both.shape[1])
    queries, keys, value, gates = np.split(by_group, np.cumsum((spec.key, spec.key, values)), axis=1)
    sizes = as_fp32(weights[f"{at}in_proj_ba.weight"]).reshape(spec.groups, 2 * per_group, -1)
    corrections, steps = sizes[:, :per_group], sizes[:, per_group:]
    parts = value, keys, queries, gates, steps, corrections
    return np.concatenate([part.reshape(-1, both.shape[1]) for part in parts])


def _channel_order(spec: State) -> slice | np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the places of channels in a checkpoint's convolution: queries, keys, values by the rule "correct"."""
    if not isinstance(spec, Recurrence) or spec.rule == "add":
        return slice(None)
    size = spec.groups * spec.key
    places = np.arange(spec.channels)
    return np.concatenate((places[2 * size :], places[size : 2 * size], places[:size]))


def _norm(spec: State, weight: Fp32 | None) -> Fp32 | None:
    if weight is None or not isinstance(spec, Recurrence):
        return None
    return np.tile(weight, spec.inner // len(weight))


def _out(config: ModelConfig, spec: State, weights: Weights, at: str) -> Product:
    scale = np.float32(config.residual_scale * (spec.out_scale if isinstance(spec, Recurrence) else 1.0))
    weight, bias = as_fp32(weights[f"{at}out_proj.weight"]), weights.get(f"{at}out_proj.bias")
    return Product(weight * scale, None if bias is None else as_fp32(bias) * scale)
