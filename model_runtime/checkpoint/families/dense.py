"""What the families of dense models compute, read from the fields of their configurations."""

from __future__ import annotations

import math
from typing import Any

from model_runtime.checkpoint.families.fields import Fields
from model_runtime.checkpoint.families.shared_fields import count_layers, read_activation, read_sliding, windows_of
from model_runtime.errors import ModelError


def llama(fields: Fields) -> dict[str, Any]:
    """Return Llama's fields."""
    attention, mlp = fields.flag("attention_bias"), fields.flag("mlp_bias")
    return dict(qkv_bias=attention, out_bias=attention, mlp_bias=mlp, activation=read_activation(fields, "silu"))


def llama_swiftkv(fields: Fields) -> dict[str, Any]:
    """Return the fields of a Llama whose upper layers share in keys and values that are made before them."""
    count = count_layers(fields)
    first = fields.size("num_key_value_layers", count) if fields.flag("swiftkv") else count
    group = fields.size("key_value_group_size", 1)
    if first > count or (count - first) % group:
        above = f"the {count - first} layers above num_key_value_layers"
        raise ModelError(f"config.json: {above} cannot be divided into groups of {group}: fetch the model again")
    above = range(first, count)
    reads = [None if (layer - first) % group == 0 else layer - (layer - first) % group for layer in above]
    return llama(fields) | dict(reads=(*(None,) * first, *reads), early=(False,) * first + (True,) * len(above))


def mistral(fields: Fields) -> dict[str, Any]:
    """Return Mistral's fields: all layers slide, over 4,096 tokens unless the window is null or given."""
    slides = not fields.has("sliding_window") or fields.has("sliding_window", null=False)
    window = fields.size("sliding_window", 4096) if slides else 0
    return dict(windows=(window,) * count_layers(fields), activation=read_activation(fields, "silu"))


def qwen2(fields: Fields) -> dict[str, Any]:
    """Return Qwen 2's fields: a window is named even if it is not used; only the upper layers slide."""
    window = fields.size("sliding_window", 4096) if fields.flag("use_sliding_window") else 0
    below = fields.size("max_window_layers", 28)
    slides = read_sliding(fields, lambda layer: window > 0 and layer >= below)
    return dict(qkv_bias=True, windows=windows_of(slides, window), activation=read_activation(fields, "silu"))


def qwen3(fields: Fields) -> dict[str, Any]:
    """Return Qwen 3's fields: as in Qwen 2, with normed heads and other biases."""
    biases = dict.fromkeys(("qkv_bias", "out_bias"), fields.flag("attention_bias"))
    return qwen2(fields) | biases | dict(head_dim=fields.size("head_dim", 128), head_norms=True)


def starcoder2(fields: Fields) -> dict[str, Any]:
    """Return StarCoder 2's fields: layer norms, biases everywhere, and no gate."""
    biases = dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), fields.flag("use_bias", True))
    window = fields.size("sliding_window") if fields.has("sliding_window", null=False) else 0
    return biases | dict(
        norm="layer",
        norm_eps=fields.number("norm_epsilon", 1e-5),
        activation=read_activation(fields, "gelu_pytorch_tanh"),
        gated=False,
        tied=fields.flag("tie_word_embeddings", True),
        windows=(window,) * count_layers(fields),
    )


def gemma(fields: Fields) -> dict[str, Any]:
    """Return Gemma's fields: its first configurations name another gelu than it was trained with."""
    biases = dict.fromkeys(("qkv_bias", "out_bias"), fields.flag("attention_bias"))
    return biases | dict(
        head_dim=fields.size("head_dim", 256),
        norm_offset=1.0,
        activation="gelu_tanh",
        embedding_scale=math.sqrt(fields.size("hidden_size")),
        tied=fields.flag("tie_word_embeddings", True),
    )


def granite(fields: Fields) -> dict[str, Any]:
    """Return Granite's fields: scales of embeddings, queries, layers and logits."""
    head_dim = fields.size("head_dim", max(1, fields.size("hidden_size") // fields.size("num_attention_heads")))
    return llama(fields) | dict(
        embedding_scale=fields.number("embedding_multiplier", 1.0),
        residual_scale=fields.number("residual_multiplier", 1.0),
        query_scale=fields.number("attention_multiplier", 1.0) * math.sqrt(head_dim),
        logits_scale=fields.number("logits_scaling", 1.0),
    )


def efim(fields: Fields) -> dict[str, Any]:
    """Return the fields of the embedded model's family: a Llama with parts that its configuration names."""
    parts = ("head_norms", "head_gates", "token_values")
    return {part: fields.flag(part) for part in parts} | dict(
        activation=read_activation(fields, "silu"), tied=fields.flag("tie_word_embeddings", True)
    )
