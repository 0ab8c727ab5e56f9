"""Joins a checkpoint's weights as decoders compute with them, with the differences between families folded in."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.layer_spec import Full
from model_runtime.checkpoint.weights import TOKEN_VALUES, Fp32, Weights, as_fp32

A = TypeVar("A")  # an array, or a tensor of torch's


class Norm(NamedTuple, Generic[A]):
    """Weights [size] of an RMS norm, or of a layer norm if there is a bias."""

    weight: A
    bias: A | None = None


class Product(NamedTuple):
    """A matrix [out, in] and its bias [out]."""

    weight: Fp32
    bias: Fp32 | None


class LayerWeights(NamedTuple):
    """One block's weights in fp32; q, k, v and gate, up are fused so that each input row is read once.

    `head_norms` [heads + kv_heads, head_dim] are weights of RMS norms of each head of queries and keys, before these
    are rotated. `head_gates` [heads, GATE_INPUTS] are weights of attention's gates. If the model has no gate, `up` is
    up alone.
    """

    norm_in: Norm[Fp32]
    qkv: Product
    head_norms: Fp32 | None
    out: Product
    norm_mlp: Norm[Fp32]
    up: Product
    down: Product
    head_gates: Fp32 | None = None


def fused(config: ModelConfig, weights: Weights, index: int) -> LayerWeights:
    """Join the weights of one layer; rows of queries and keys are permuted (see `_paired`)."""
    at, attention, mlp = f"model.layers.{index}.", config.layers[index].attention, config.layers[index].mlp
    up, down = ("gate_proj up_proj", "down_proj") if mlp.gated else ("c_fc", "c_proj")
    return LayerWeights(
        norm_in=norm(config, weights, f"{at}input_layernorm"),
        qkv=_queries_keys_values(attention, weights, f"{at}self_attn."),
        head_norms=_head_norms(attention, weights, f"{at}self_attn."),
        out=_product(weights, [f"{at}self_attn.o_proj"], attention.out_bias, config.residual_scale),
        norm_mlp=norm(config, weights, f"{at}post_attention_layernorm"),
        up=_product(weights, [f"{at}mlp.{name}" for name in up.split()], mlp.mlp_bias),
        down=_product(weights, [f"{at}mlp.{down}"], mlp.mlp_bias, config.residual_scale),
        head_gates=as_fp32(weights[f"{at}self_attn.head_gates.weight"]) if attention.head_gates else None,
    )


def norm(config: ModelConfig, weights: Weights, name: str) -> Norm[Fp32]:
    """Return the norm of a name."""
    weight = as_fp32(weights[f"{name}.weight"]) + config.norm_offset
    return Norm(weight, as_fp32(weights[f"{name}.bias"]) if config.norm == "layer" else None)


def token_values(config: ModelConfig, weights: Weights) -> npt.NDArray[Any] | None:
    """Return what is added to the values of each token, as stored, [vocab, layers * kv_heads * head_dim]."""
    return weights[TOKEN_VALUES] if config.alike.attention.token_values else None


def head(config: ModelConfig, weights: Weights) -> npt.NDArray[Any]:
    """Return the matrix that gives logits, [vocab, hidden], as stored or fp32."""
    weight = weights["model.embed_tokens.weight" if config.tied else "lm_head.weight"]
    return weight if config.logits_scale == 1 else as_fp32(weight) / config.logits_scale


def _product(weights: Weights, names: list[str], biased: bool, scale: float = 1.0) -> Product:
    weight = as_fp32(*(weights[f"{name}.weight"] for name in names))
    bias = as_fp32(*(weights[f"{name}.bias"] for name in names)) if biased else None
    if scale == 1:  # no copy of a large matrix
        return Product(weight, bias)
    return Product(weight * scale, None if bias is None else bias * scale)


def _queries_keys_values(attention: Full, weights: Weights, at: str) -> Product:
    scales = {"q": 1.0 if attention.head_norms else attention.query_scale, "k": 1.0, "v": 1.0}  # a norm would undo it
    parts = [_product(weights, [f"{at}{name}_proj"], attention.qkv_bias, scale) for name, scale in scales.items()]

    def joined(q: Fp32, k: Fp32, v: Fp32) -> Fp32:
        return np.concatenate((_paired(q, attention), _paired(k, attention), v))

    biases = [part.bias for part in parts if part.bias is not None]
    return Product(joined(*(part.weight for part in parts)), joined(*biases) if biases else None)


def _head_norms(attention: Full, weights: Weights, at: str) -> Fp32 | None:
    if not attention.head_norms:
        return None
    q, k = (_paired(as_fp32(weights[f"{at}{name}_norm.weight"]), attention) for name in "qk")
    scaled, heads, kv_heads = q * attention.query_scale, attention.heads, attention.kv_heads
    return np.concatenate((np.tile(scaled, (heads, 1)), np.tile(k, (kv_heads, 1))))


def _paired(rows: Fp32, attention: Full) -> Fp32:
    """Put the two halves of every head side by side: dimension i next to i + head_dim / 2.

    Rotary embedding turns those two as one complex number, so that rotating is one product. Queries and keys are
    permuted alike, which leaves their dot products as they were; keys in arenas are in this order.
    """
    half = attention.head_dim // 2
    return rows.reshape(-1, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
