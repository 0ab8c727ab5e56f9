"""What families with experts compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from model_runtime.checkpoint.families.dense import granite, qwen2, qwen3
from model_runtime.checkpoint.families.fields import Fields
from model_runtime.checkpoint.families.layer_spec import Activation, Experts
from model_runtime.checkpoint.families.shared_fields import (
    count_layers,
    read_activation,
    read_rope,
    read_sliding,
    windows_of,
)
from model_runtime.errors import ModelError


def mixtral(fields: Fields) -> dict[str, Any]:
    """Return Mixtral's fields."""
    experts = read_experts(fields, fields.size("num_local_experts", 8), fields.size("intermediate_size"), 2)
    window = fields.size("sliding_window") if fields.has("sliding_window", null=False) else 0
    return dict(windows=(window,) * count_layers(fields), mlps=(experts,) * count_layers(fields))


def qwen2_moe(fields: Fields) -> dict[str, Any]:
    """Return the fields of Qwen 2 with experts, one of which computes every token."""
    shared = fields.size("shared_expert_intermediate_size", 5632)
    made = qwen_experts(fields, 60, 1408, 4)
    return qwen2(fields) | dict(mlps=sparse_layers(fields, replace(made, shared=shared, shared_gate=True)))


def qwen3_moe(fields: Fields) -> dict[str, Any]:
    """Return the fields of Qwen 3 with experts."""
    return qwen3(fields) | dict(mlps=sparse_layers(fields, qwen_experts(fields, 128, 768, 8)))


def qwen_experts(fields: Fields, count: int, size: int, chosen: int) -> Experts:
    """Read the experts of Qwen's families; the defaults are theirs.

    What transformers 5 saves of Qwen 3 has their number under another name than what Qwen has published.
    """
    field = "num_local_experts" if fields.has("num_local_experts") else "num_experts"
    experts = read_experts(fields, fields.size(field, count), fields.size("moe_intermediate_size", size), chosen)
    return replace(experts, normalized=fields.flag("norm_topk_prob"))


def granitemoe(fields: Fields) -> dict[str, Any]:
    """Return the fields of Granite with experts."""
    experts = read_experts(fields, fields.size("num_local_experts", 8), fields.size("intermediate_size"), 2)
    return granite(fields) | dict(mlps=(experts,) * count_layers(fields))


def ernie4_5_moe(fields: Fields) -> dict[str, Any]:
    """Return ERNIE 4.5's fields: the first layers are dense, and pairs of rotated numbers are neighbours."""
    size, count = fields.size("moe_intermediate_size", 1536), count_layers(fields)
    experts = replace(
        read_experts(fields, fields.size("moe_num_experts", 64), size, 6, "moe_k"),
        correction=True,
        shared=size * fields.count("moe_num_shared_experts", 2),
    )
    start, every = fields.count("moe_layer_start_index", 1), fields.size("moe_layer_interval", 1)
    end = (
        fields.count("moe_layer_end_index", count - 1) if fields.whole("moe_layer_end_index", -1) >= 0 else count - 1
    )
    sparse = [start <= layer <= end and (layer + 1) % every == 0 for layer in range(count)]
    biases = dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), fields.flag("use_bias"))
    return biases | dict(
        activation=read_activation(fields, "silu"),
        ropes=(replace(read_rope(fields), interleaved=True),) * count,
        mlps=tuple(experts if each else None for each in sparse),
        norm_eps=fields.number("rms_norm_eps", 1e-5),
        tied=fields.flag("tie_word_embeddings", True),
    )


def gpt_oss(fields: Fields) -> dict[str, Any]:
    """Return gpt-oss' fields: every other layer slides, heads have sinks, experts are clamped and biased."""
    experts = replace(
        read_experts(fields, fields.size("num_local_experts", 128), fields.size("intermediate_size"), 4),
        activation="clamped_silu",
        biased=True,
    )
    bias, slides = fields.flag("attention_bias", True), read_sliding(fields, lambda layer: layer % 2 == 0)
    return dict(
        qkv_bias=bias,
        out_bias=bias,
        sinks=True,
        head_dim=fields.size("head_dim", 64),
        norm_eps=fields.number("rms_norm_eps", 1e-5),
        windows=windows_of(slides, fields.size("sliding_window", 128)),
        mlps=(experts,) * count_layers(fields),
    )


def read_experts(fields: Fields, count: int, size: int, chosen: int, field: str = "num_experts_per_tok") -> Experts:
    """Read experts of `size` numbers each; `field` names how many of them a token chooses."""
    chosen = fields.size(field, chosen)
    if chosen > count:
        raise ModelError(f"config.json: {field} is {chosen} of {count} experts: fetch the model again")
    activation: Activation = "silu" if not fields.has("hidden_act", null=False) else read_activation(fields, "silu")
    return Experts(count, chosen, size, activation)


def sparse_layers(fields: Fields, experts: Experts) -> tuple[Experts | None, ...]:
    """Return which layers of Qwen's have experts: those that no list leaves out, at every step."""
    dense, step = fields.ids("mlp_only_layers"), fields.size("decoder_sparse_step", 1)
    return tuple(
        experts if layer not in dense and (layer + 1) % step == 0 else None for layer in range(count_layers(fields))
    )
