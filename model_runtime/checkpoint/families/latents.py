"""What families with compressed keys compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from model_runtime.checkpoint.families.experts import read_experts
from model_runtime.checkpoint.families.fields import Fields
from model_runtime.checkpoint.families.layer_spec import Experts, Latent
from model_runtime.checkpoint.families.shared_fields import (
    UnknownArchitecture,
    count_layers,
    read_activation,
    read_rope,
    sharpened,
)
from model_runtime.errors import ModelError


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
