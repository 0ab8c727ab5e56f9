"""Joins the weights of layers' attention; rows of queries and keys are permuted for rotation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Attention, Convolved, Full, Latent, LayerSpec
from model_runtime.checkpoint.tensor_shapes import early_suffix
from model_runtime.checkpoint.weights import Fp32, Weights, as_fp32
from model_runtime.decoder.weights.product import Product, joined_product


class FullWeights(NamedTuple):
    """Attention with keys and values of each head; q, k and v are joined so that each input row is read once.

    If each number of the output has a gate, what these are made of, [heads * head_dim], follows them. A layer that
    reads the keys and values of another has queries alone.
    `head_norms` [heads + kv_heads, head_dim] are weights of RMS norms of each head of queries and keys, before these
    are rotated. `head_gates` [heads, GATE_INPUTS] are weights of attention's gates. These and `sinks` [heads] are
    None if it has none.
    """

    qkv: Product
    out: Product
    head_norms: Fp32 | None
    head_gates: Fp32 | None
    sinks: Fp32 | None


class LatentWeights(NamedTuple):
    """Attention over latents: `first` gives queries, or their inputs, then latent and rotated key.

    `query` and its norm are None if queries come out of the first product. A head's plain query goes through `keys`
    [heads, rank, plain], so that it meets latents, and its result goes through `values` [heads, value, rank].
    Norms are RMS norms' weights.
    """

    first: Product
    query_norm: Fp32 | None
    query: Product | None
    latent_norm: Fp32
    keys: Fp32
    values: Fp32
    out: Product


class ConvolvedWeights(NamedTuple):
    """Attention with convolved queries and keys: `first` gives these, then half of the next token's values and half
    of this token's.

    `by_channel` [kernel, channels] has the oldest token first, and so has `by_head` [heads, head_dim, kernel *
    head_dim], of heads of queries and then of keys; their biases are [channels] and [heads, head_dim]. `delayed_bias`
    [half of values] is added to that half, if there is one, and `key_scales` [kv_heads] multiply keys.
    """

    first: Product
    by_channel: Fp32
    by_channel_bias: Fp32
    by_head: Fp32
    by_head_bias: Fp32
    delayed_bias: Fp32 | None
    key_scales: Fp32
    out: Product


AttentionWeights = FullWeights | LatentWeights | ConvolvedWeights


def attention_weights(config: ModelConfig, layer: LayerSpec, weights: Weights, at: str) -> AttentionWeights | None:
    """Join the weights of one layer's attention, if it has one; their names begin with `at`."""
    if (a := layer.attention) is None:
        return None
    has_keys = layer.reads is None and not layer.early
    if isinstance(a, Convolved):
        return _convolved(a, weights, at)
    scale = config.residual_scale * (1.0 if isinstance(a, Latent) else a.out_scale)
    out = joined_product(weights, [f"{at}o_proj"], a.out_bias, scale)
    if isinstance(a, Latent):
        return _latent(a, weights, at, out)
    return FullWeights(
        _queries_keys_values(a, weights, at)
        if has_keys
        else _queries(a, weights, f"{at}q_proj{early_suffix(layer)}"),
        out,
        _head_norms(config, a, weights, at, has_keys),
        as_fp32(weights[f"{at}head_gates.weight"]) if a.head_gates else None,
        as_fp32(weights[f"{at}sinks"]) if a.sinks else None,
    )


def _latent(a: Latent, weights: Weights, at: str, out: Product) -> LatentWeights:
    made = _scaled_queries(a, weights, f"{at}{'q_b_proj' if a.query_rank else 'q_proj'}.weight")
    kept = joined_product(weights, [f"{at}kv_a_proj_with_mqa"], a.first_bias)
    kept = Product(*(None if each is None else _rotated_last(a, each, 1) for each in kept))  # pyright: ignore
    begin = joined_product(weights, [f"{at}q_a_proj"], a.first_bias) if a.query_rank else Product(made, None)
    first = np.zeros(len(begin.weight), np.float32) if begin.bias is None else begin.bias
    joined = None if kept.bias is None else np.concatenate((first, kept.bias))
    both = as_fp32(weights[f"{at}kv_b_proj.weight"]).reshape(a.heads, a.plain + a.value, a.rank)
    return LatentWeights(
        Product(np.concatenate((begin.weight, kept.weight)), joined),
        as_fp32(weights[f"{at}q_a_layernorm.weight"]) if a.query_rank else None,
        Product(made, None) if a.query_rank else None,
        as_fp32(weights[f"{at}kv_a_layernorm.weight"]),
        np.ascontiguousarray(both[:, : a.plain].swapaxes(1, 2)),
        np.ascontiguousarray(both[:, a.plain :]),
        out,
    )


def _convolved(a: Convolved, weights: Weights, at: str) -> ConvolvedWeights:
    """Join the weights of convolved attention; numbers of queries and keys are paired from the projections on."""
    inner = f"{at}qkv_proj."
    names = ("q_proj", "k_proj", "v_proj_delayed", "v_proj_current")
    first, bias = joined_product(weights, [inner + name for name in names], a.biased)
    delayed, delayed_bias = slice(a.convolved, a.convolved + a.half_values), None
    if bias is not None:
        bias, delayed_bias = _paired_queries_keys(a, bias), bias[delayed].copy()
        bias[delayed] = 0  # of a token that does not exist, the bias alone is there
    channels, heads = (f"{inner}conv_qk_{name}" for name in ("depthwise", "grouped"))
    by_head = _paired(as_fp32(weights[f"{heads}.weight"]), a)  # [channels, inputs of the head, kernel]
    by_head = _paired(np.moveaxis(by_head, 1, 0), a).reshape(a.head_dim, -1, a.head_dim, a.by_head)
    return ConvolvedWeights(
        first=Product(_paired_queries_keys(a, first), bias),
        by_channel=np.ascontiguousarray(_paired(as_fp32(weights[f"{channels}.weight"])[:, 0], a).T),
        by_channel_bias=_paired(as_fp32(weights[f"{channels}.bias"]), a),
        by_head=by_head.transpose(1, 2, 3, 0).reshape(-1, a.head_dim, a.by_head * a.head_dim),
        by_head_bias=_paired(as_fp32(weights[f"{heads}.bias"]), a).reshape(-1, a.head_dim),
        delayed_bias=delayed_bias,
        key_scales=as_fp32(weights[f"{at}qk_norm.temp"]),
        out=joined_product(weights, [f"{at}o_proj"], a.biased),
    )


def _paired_queries_keys(a: Convolved, rows: Fp32) -> Fp32:
    """Pair the numbers of queries and keys, which come before the values."""
    return np.concatenate((_paired(rows[: a.convolved], a), rows[a.convolved :]))


def _scaled_queries(a: Latent, weights: Weights, name: str) -> Fp32:
    """Return the rows of queries, with their scale; yarn's factor applies to rotated numbers alone."""
    rows = (as_fp32(weights[name]) * np.float32(a.query_scale)).reshape(a.heads, a.query, -1)
    rows[:, a.plain :] *= np.float32(a.rope.attention**2)
    return _rotated_last(a, rows.reshape(a.heads * a.query, -1), a.heads)


def _rotated_last(a: Latent, rows: Fp32, heads: int) -> Fp32:
    """Pair the rotated numbers, which are the last of each head."""
    by_head = rows.reshape(heads, -1, *rows.shape[1:]).copy()
    last = by_head[:, -a.rotated :]
    by_head[:, -a.rotated :] = _paired(last.reshape(-1, *rows.shape[1:]), a).reshape(last.shape)
    return by_head.reshape(rows.shape)


def _queries_keys_values(attention: Full, weights: Weights, at: str) -> Product:
    scales = {"q": 1.0 if attention.head_norms else attention.query_scale, "k": 1.0, "v": 1.0}  # a norm would undo it
    parts = [
        joined_product(weights, [f"{at}{name}_proj"], attention.qkv_bias, scale) for name, scale in scales.items()
    ]

    def joined(q: Fp32, k: Fp32, v: Fp32) -> Fp32:
        q, *gates = _without_gates(q, attention) if attention.output_gates else (q,)
        return np.concatenate((_paired(q, attention), _paired(k, attention), v, *gates))

    biases = [part.bias for part in parts if part.bias is not None]
    return Product(joined(*(part.weight for part in parts)), joined(*biases) if biases else None)


def early_keys(config: ModelConfig, index: int, weights: Weights) -> Product:
    """Return what makes keys, then values, of the stream in front of all early layers, for one of them."""
    a, at = config.layers[index].attention, f"model.layers.{index}.self_attn."
    assert isinstance(a, Full)
    suffix = early_suffix(config.layers[index])
    k, v = (joined_product(weights, [f"{at}{name}_proj{suffix}"], a.qkv_bias) for name in "kv")
    biases = None if k.bias is None or v.bias is None else np.concatenate((_paired(k.bias, a), v.bias))
    return Product(np.concatenate((_paired(k.weight, a), v.weight)), biases)


def _queries(a: Full, weights: Weights, name: str) -> Product:
    rows, bias = joined_product(weights, [name], a.qkv_bias, 1.0 if a.head_norms else a.query_scale)
    return Product(_paired(rows, a), None if bias is None else _paired(bias, a))


def _without_gates(q: Fp32, attention: Full) -> tuple[Fp32, Fp32]:
    """Return the rows of queries and the rows of gates, which checkpoints have head by head, one after the other."""
    by_head = q.reshape(attention.heads, 2, attention.head_dim, *q.shape[1:])
    queries, gates = (by_head[:, part].reshape(-1, *q.shape[1:]) for part in range(2))
    return queries, gates


def _head_norms(config: ModelConfig, a: Full, weights: Weights, at: str, has_keys: bool) -> Fp32 | None:
    if not a.head_norms:
        return None
    norms = [as_fp32(weights[f"{at}{name}_norm.weight"]) + config.norm_offset for name in "qk"[: 1 + has_keys]]
    q, *k = (_paired(weight, a) for weight in norms)
    scaled = np.tile(q * a.query_scale, (a.heads, 1))
    return np.concatenate((scaled, *(np.tile(each, (a.kv_heads, 1)) for each in k)))


def _paired(rows: Fp32, attention: Attention) -> Fp32:
    """Put the halves of every head's rotated part side by side: dimension i next to the one half of it further.

    Rotary embedding turns those two as one complex number, so that rotating is one product. Queries and keys are
    permuted alike, which leaves their dot products as they were; keys in arenas are in this order. Keys of
    interleaved rotations are in it from the start, and so is the unrotated part of a head.
    """
    if attention.rope.interleaved:
        return rows
    by_head = rows.reshape(-1, attention.rotated, *rows.shape[1:])
    turned = attention.rope.rotated(attention.rotated)
    halves = by_head[:, :turned].reshape(len(by_head), 2, turned // 2, *rows.shape[1:]).swapaxes(1, 2)
    if turned == attention.rotated:
        return halves.reshape(rows.shape)
    paired = halves.reshape(len(by_head), turned, *rows.shape[1:])
    return np.concatenate((paired, by_head[:, turned:]), 1).reshape(rows.shape)
