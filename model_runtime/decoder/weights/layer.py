"""Joins a checkpoint's weights as decoders compute with them, with the differences between families folded in."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.gguf.tensors import Blocks
from model_runtime.checkpoint.tensor_shapes import EMBEDDING, HEAD, TOKEN_VALUES, has_token_values, norm_names
from model_runtime.checkpoint.weights import Fp32, StoredWeights, Weights, as_fp32
from model_runtime.decoder.weights.attention import AttentionWeights, attention_weights
from model_runtime.decoder.weights.feed_forward import DenseWeights, ExpertWeights, FeedForwardTensors
from model_runtime.decoder.weights.state import StateWeights, state_weights

A = TypeVar("A")  # an array, or a tensor of torch's


class Norm(NamedTuple, Generic[A]):
    """Weights [size] of an RMS norm, or of a layer norm if there is a bias."""

    weight: A
    bias: A | None = None


class LayerWeights(NamedTuple):
    """One block's weights in fp32; parts and norms that it does not have are None."""

    norm_in: Norm[Fp32]
    attention: AttentionWeights | None
    norm_mlp: Norm[Fp32] | None
    mlp: DenseWeights | ExpertWeights | None
    norm_after_attention: Norm[Fp32] | None = None
    norm_after_mlp: Norm[Fp32] | None = None
    state: StateWeights | None = None


def fused(config: ModelConfig, weights: Weights, index: int) -> LayerWeights:
    """Join the weights of one layer; rows of queries and keys are permuted for their rotation."""
    layer, at = config.layers[index], f"model.layers.{index}."
    names = norm_names(layer)

    def named(name: str | None) -> Norm[Fp32] | None:
        return None if name is None else norm(config, weights, at + name)

    norm_in = norm(config, weights, at + names.attention)
    return LayerWeights(
        norm_in=norm_in,
        attention=attention_weights(config, layer, weights, f"{at}self_attn."),
        norm_mlp=named(names.mlp) or (norm_in if layer.parallel else None),
        mlp=FeedForwardTensors(config, weights, at).joined(layer.mlp),
        norm_after_attention=named(names.after_attention),
        norm_after_mlp=named(names.after_mlp),
        state=layer.state and state_weights(config, layer.state, weights, f"{at}state."),
    )


def norm(config: ModelConfig, weights: Weights, name: str) -> Norm[Fp32]:
    """Return the norm of a name; a layer norm without biases gets zeros."""
    weight = as_fp32(weights[f"{name}.weight"]) + config.norm_offset
    if config.norm == "rms":
        return Norm(weight)
    return Norm(weight, as_fp32(weights[f"{name}.bias"]) if config.norm_bias else np.zeros_like(weight))


def token_values(config: ModelConfig, weights: Weights) -> npt.NDArray[Any] | None:
    """Return the numbers added to the values of each token, as stored, [vocab, layers * kv_heads * head_dim]."""
    return weights[TOKEN_VALUES] if has_token_values(config) else None


def stored_head(config: ModelConfig, weights: Weights) -> npt.NDArray[Any] | Blocks | None:
    """Return the numbers of `head` as a checkpoint stores them, None if they are scaled."""
    name = HEAD if HEAD in weights else EMBEDDING
    if config.logits_scale != 1:
        return None
    return weights.table(name) if isinstance(weights, StoredWeights) else weights[name]


def head(config: ModelConfig, weights: Weights) -> npt.NDArray[Any]:
    """Return the matrix that gives logits, [vocab, hidden], as stored or fp32."""
    weight = weights[HEAD if HEAD in weights else EMBEDDING]
    return weight if config.logits_scale == 1 else as_fp32(weight) / config.logits_scale
