"""Joins a checkpoint's weights as decoders compute with them, with the differences between families folded in."""

from __future__ import annotations

from typing import NamedTuple

import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Weights


class Norm(NamedTuple):
    """Weights [size] of an RMS norm, or of a layer norm if there is a bias."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None


class Product(NamedTuple):
    """A matrix [out, in] and its bias [out]."""

    weight: torch.Tensor
    bias: torch.Tensor | None


class LayerWeights(NamedTuple):
    """One block's weights in fp32; q, k, v and gate, up are fused so that each input row is read once.

    `head_norms` [heads + kv_heads, head_dim] are weights of RMS norms of each head of queries and keys, before these
    are rotated. If the model has no gate, `up` is up alone.
    """

    norm_in: Norm
    qkv: Product
    head_norms: torch.Tensor | None
    out: Product
    norm_mlp: Norm
    up: Product
    down: Product


def fused(config: ModelConfig, weights: Weights, index: int) -> LayerWeights:
    """Join the weights of one layer; rows of queries and keys are permuted (see `_paired`)."""
    at = f"model.layers.{index}."
    up, down = ("gate_proj up_proj", "down_proj") if config.gated else ("c_fc", "c_proj")
    return LayerWeights(
        norm_in=norm(config, weights, f"{at}input_layernorm"),
        qkv=_queries_keys_values(config, weights, f"{at}self_attn."),
        head_norms=_head_norms(config, weights, f"{at}self_attn."),
        out=_product(weights, [f"{at}self_attn.o_proj"], config.out_bias, config.residual_scale),
        norm_mlp=norm(config, weights, f"{at}post_attention_layernorm"),
        up=_product(weights, [f"{at}mlp.{name}" for name in up.split()], config.mlp_bias),
        down=_product(weights, [f"{at}mlp.{down}"], config.mlp_bias, config.residual_scale),
    )


def norm(config: ModelConfig, weights: Weights, name: str) -> Norm:
    """Return the norm of a name."""
    weight = weights[f"{name}.weight"].float() + config.norm_offset
    return Norm(weight, weights[f"{name}.bias"].float() if config.norm == "layer" else None)


def head(config: ModelConfig, weights: Weights) -> torch.Tensor:
    """Return the matrix that gives logits, [vocab, hidden]."""
    weight = weights["model.embed_tokens.weight" if config.tied else "lm_head.weight"]
    return weight if config.logits_scale == 1 else weight.float() / config.logits_scale


def _product(weights: Weights, names: list[str], biased: bool, scale: float = 1.0) -> Product:
    weight = torch.cat([weights[f"{name}.weight"].float() for name in names])
    bias = torch.cat([weights[f"{name}.bias"].float() for name in names]) if biased else None
    if scale == 1:  # no copy of a large matrix
        return Product(weight, bias)
    return Product(weight * scale, None if bias is None else bias * scale)


def _queries_keys_values(config: ModelConfig, weights: Weights, at: str) -> Product:
    scales = {"q": 1.0 if config.head_norms else config.query_scale, "k": 1.0, "v": 1.0}  # a norm would undo it
    parts = [_product(weights, [f"{at}{name}_proj"], config.qkv_bias, scale) for name, scale in scales.items()]

    def joined(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.cat((_paired(q, config), _paired(k, config), v))

    biases = [part.bias for part in parts if part.bias is not None]
    return Product(joined(*(part.weight for part in parts)), joined(*biases) if biases else None)


def _head_norms(config: ModelConfig, weights: Weights, at: str) -> torch.Tensor | None:
    if not config.head_norms:
        return None
    q, k = (_paired(weights[f"{at}{name}_norm.weight"].float(), config) for name in "qk")
    return torch.cat(((q * config.query_scale).expand(config.heads, -1), k.expand(config.kv_heads, -1)))


def _paired(rows: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """Put the two halves of every head side by side: dimension i next to i + head_dim / 2.

    Rotary embedding turns those two as one complex number, so that rotating is one product. Queries and keys are
    permuted alike, which leaves their dot products as they were; keys in arenas are in this order.
    """
    half = config.head_dim // 2
    return rows.view(-1, 2, half, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)
