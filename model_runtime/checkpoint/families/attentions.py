"""What families compute whose attention has compressed keys, or convolves queries and keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from model_runtime.checkpoint.families.experts import read_experts
from model_runtime.checkpoint.families.fields import Fields
from model_runtime.checkpoint.families.layer_spec import Convolved, Experts, Latent
from model_runtime.checkpoint.families.shared_fields import (
    UnknownArchitecture,
    count_layers,
    read_activation,
    read_kinds,
    read_kv_heads,
    read_rope,
    rope_of,
    sharpened,
    windows_of,
)
from model_runtime.errors import ModelError

CONVOLVES, SLIDES = "hybrid", "hybrid_sliding"  # transformers' names of kinds of layers
THETAS = {CONVOLVES: 5e6, SLIDES: 1e4}


def deepseek_v2(fields: Fields) -> dict[str, Any]:
    """Return DeepSeek V2's fields: shares of experts do not add up to 1, and a group is as good as its best one."""
    method, experts = fields.text("topk_method", "greedy"), _deepseek_experts(fields)
    if method not in ("greedy", "group_limited_greedy"):
        raise UnknownArchitecture(f"the decoder does not know a choice of experts by {method!r}: use another model")
    if method == "greedy":
        experts = replace(experts, groups=1)
    return _latent(fields, replace(experts, normalized=False), interleaved=True)


def deepseek_v3(fields: Fields) -> dict[str, Any]:
    """Return DeepSeek V3's fields: scores are sigmoids, and a correction takes part in the choice alone."""
    experts = replace(_deepseek_experts(fields), scores="sigmoid", correction=True, group_best=2)
    experts = replace(experts, normalized=fields.flag("norm_topk_prob", True))
    return _latent(fields, experts, fields.flag("rope_interleave", True))


def glm4_moe_lite(fields: Fields) -> dict[str, Any]:
    """Return the fields of GLM 4's smaller models: DeepSeek V3's, with a list of which layers are dense."""
    count = count_layers(fields)
    kinds = fields.texts("mlp_layer_types") or ("dense", *["sparse"] * (count - 1))
    if len(kinds) != count or {*kinds} - {"dense", "sparse"}:
        wanted = f"dense or sparse for {count} layers"
        raise ModelError(f"config.json: mlp_layer_types is not {wanted}: fetch the model again")
    made = deepseek_v3(fields)
    experts = next((each for each in made["mlps"] if each is not None), None)
    return made | dict(
        mlps=tuple(experts if kind == "sparse" else None for kind in kinds),
        norm_eps=fields.number("rms_norm_eps", 1e-5),
    )


def _deepseek_experts(fields: Fields) -> Experts:
    size = fields.size("moe_intermediate_size")
    return replace(
        read_experts(fields, fields.size("n_routed_experts"), size, 8),
        groups=fields.size("n_group", 1),
        chosen_groups=fields.size("topk_group", 1),
        scale=fields.number("routed_scaling_factor", 1.0),
        shared=size * fields.count("n_shared_experts", 0),
    )


def _latent(fields: Fields, experts: Experts, interleaved: bool) -> dict[str, Any]:
    """Return the fields of models with compressed keys, whose first layers are dense."""
    count, bias, rope = count_layers(fields), fields.flag("attention_bias"), read_rope(fields)
    inner = Fields(fields.object("rope_parameters") | fields.object("rope_scaling"))
    sharp = sharpened(inner.number("factor"), inner.number("mscale_all_dim")) if inner.flag("mscale_all_dim") else 1.0
    attention = Latent(
        heads=fields.size("num_attention_heads"),
        rank=fields.size("kv_lora_rank"),
        plain=fields.size("qk_nope_head_dim"),
        rotated=fields.size("qk_rope_head_dim"),
        value=fields.size("v_head_dim"),
        query_rank=fields.size("q_lora_rank") if fields.has("q_lora_rank", null=False) else 0,
        query_scale=sharp**2,
        first_bias=bias,
        out_bias=bias,
    )
    dense = fields.count("first_k_dense_replace", 0)
    return dict(
        attention=attention,
        ropes=(replace(rope, interleaved=interleaved),) * count,
        mlps=tuple(None if layer < dense else experts for layer in range(count)),
        activation=read_activation(fields, "silu"),
        mlp_bias=fields.flag("mlp_bias"),
    )


def zaya(fields: Fields) -> dict[str, Any]:
    """Return ZAYA1's fields: a network chooses one expert or none for a token, and reads the previous layer's."""
    count = count_layers(fields)
    kinds = read_kinds(fields, THETAS.keys()) or (CONVOLVES,) * count
    if read_activation(fields, "silu") != "silu" or fields.flag("lm_head_bias"):
        raise UnknownArchitecture("the decoder does not know ZAYA1 without silu or with biased logits: use another")
    attention, slides = _attention(fields), [kind == SLIDES for kind in kinds]
    experts = replace(
        read_experts(fields, fields.size("num_experts", 16), fields.size("moe_intermediate_size", 2048), 1),
        normalized=False,
        correction=True,
        routed=fields.size("router_hidden_size", 256),
        skips=True,
    )
    ropes = Fields(fields.object("rope_parameters"))
    by_kind = {kind: rope_of(fields, Fields(ropes.object(kind)), theta, 0.5) for kind, theta in THETAS.items()}
    return dict(
        attention=attention,
        states=(attention.lookback,) * count,
        windows=windows_of(slides, fields.size("sliding_window") if any(slides) else 0),
        ropes=tuple(by_kind[kind] for kind in kinds),
        mlps=(experts, *(replace(experts, chained=True),) * (count - 1)),
        intermediate=experts.intermediate,
        scaled_residuals=True,
        norm_eps=fields.number("rms_norm_eps", 1e-5),
        context=fields.size("max_position_embeddings", 131_072),
        tied=fields.flag("tie_word_embeddings", True),
    )


def _attention(fields: Fields) -> Convolved:
    heads = fields.size("num_attention_heads", 8)
    attention = Convolved(
        heads,
        read_kv_heads(fields, heads, 2),
        fields.size("head_dim", 128),
        by_channel=fields.size("cca_time0", 2),
        by_head=fields.size("cca_time1", 2),
        biased=fields.flag("attention_bias"),
    )
    if attention.lookback.kernel < 2:
        raise UnknownArchitecture("the decoder does not know convolutions of single tokens: use another model")
    return attention
