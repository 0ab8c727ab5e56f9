"""What families compute whose layers keep a state: a memory that fades, or the inputs of a convolution."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from model_runtime.checkpoint.families.dense import granite, llama
from model_runtime.checkpoint.families.experts import qwen_experts, read_experts, sparse_layers
from model_runtime.checkpoint.families.fields import Fields
from model_runtime.checkpoint.families.layer_spec import Experts, Gating, Recurrence, Rope, ShortConv, State
from model_runtime.checkpoint.families.shared_fields import (
    FULL,
    UnknownArchitecture,
    count_layers,
    read_activation,
    read_kinds,
    read_rope,
)
from model_runtime.errors import ModelError

LINEAR, CONVOLVES = "linear_attention", "conv"  # transformers' names of kinds of layers
MAMBA = "mamba"  # its name of the first in configurations of version 4
STATE_CONTEXT = 1 << 18  # tokens of a model that no position bounds


def mamba2(fields: Fields) -> dict[str, Any]:
    """Return Mamba 2's fields: no layer has attention or a feed-forward part."""
    hidden, count = fields.size("hidden_size", 4096), count_layers(fields)
    heads, value = fields.size("num_heads", 128), fields.size("head_dim", 64)
    _check_heads(heads, value, int(fields.number("expand", 2) * hidden))
    state = Recurrence(
        "add",
        heads,
        groups=fields.size("n_groups", 8),
        key=fields.size("state_size", 128),
        value=value,
        kernel=fields.size("conv_kernel", 4),
        conv_bias=fields.flag("use_conv_bias", True),
        in_bias=fields.flag("use_bias"),
        out_bias=fields.flag("use_bias"),
        **_step_limits(fields),
    )
    _check_groups(state)
    _refuse_other_activation(fields)
    return dict(
        states=(state,) * count,
        attends=(False,) * count,
        feeds_forward=False,
        norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        context=fields.size("max_position_embeddings", STATE_CONTEXT),
    )


def bamba(fields: Fields) -> dict[str, Any]:
    """Return Bamba's fields: some layers attend instead of keeping a state, and rotate half of a head."""
    count, attends = count_layers(fields), set(fields.ids("attn_layer_indices"))
    kinds = [layer in attends for layer in range(count)]
    state = _mamba(fields, fields.size("mamba_expand", 2) * fields.size("hidden_size"))
    return llama(fields) | dict(
        **_by_layer(kinds, state),
        ropes=(read_rope(fields, share=0.5),) * count,
        norm_eps=fields.number("rms_norm_eps", 1e-5),
    )


def granitemoehybrid(fields: Fields) -> dict[str, Any]:
    """Return Granite 4's fields: few layers attend, which may not rotate; a shared expert may be the only one."""
    count, kinds = count_layers(fields), _attending(fields)
    state = _mamba(fields, fields.size("mamba_expand", 2) * fields.size("hidden_size"))
    rope = read_rope(fields) if fields.text("position_embedding_type", "") == "rope" else Rope(kind="none")
    shared, experts = fields.size("shared_intermediate_size", 1024), None
    if fields.count("num_local_experts", 8):
        read = read_experts(fields, fields.size("num_local_experts", 8), fields.size("intermediate_size"), 2)
        experts = Experts(read.count, read.chosen, read.intermediate, read.activation, shared=shared)
    return granite(fields) | dict(
        intermediate=shared,
        joined=True,
        mlps=(experts,) * count,
        **_by_layer(kinds, state),
        ropes=(rope,) * count,
    )


def falcon_h1(fields: Fields) -> dict[str, Any]:
    """Return Falcon H1's fields: each layer has attention and a state, which read the same; much is scaled."""
    count, hidden = count_layers(fields), fields.size("hidden_size")
    inner = fields.size("mamba_d_ssm", 1024)
    if fields.has("mamba_d_ssm") and not fields.has("mamba_d_ssm", null=False):
        inner = fields.size("mamba_expand", 2) * hidden
    into, out = fields.number("attention_in_multiplier", 1.0), fields.number("attention_out_multiplier", 1.0)
    if fields.flag("attention_bias") and into != 1:
        raise UnknownArchitecture("the decoder does not know scaled inputs of biased attention: use another model")
    gate, down = fields.numbers("mlp_multipliers", (1.0, 1.0))
    norm_first = fields.flag("mamba_norm_before_gate", True)
    gating: Gating = "alone"
    if fields.flag("mamba_rms_norm"):
        gating = "after_norm" if norm_first else "before_norm"
    scales = fields.numbers("ssm_multipliers", (1.0,) * 5)
    state = _mamba(
        fields,
        inner,
        out_bias=fields.flag("projectors_bias"),
        gating=gating,
        scales=tuple(fields.number("ssm_in_multiplier", 1.0) * each for each in scales),
        out_scale=fields.number("ssm_out_multiplier", 1.0),
    )
    return llama(fields) | dict(
        states=(state,) * count,
        query_scale=into**2 * fields.number("key_multiplier", 1.0),
        out_scale=into * out,
        gate_scale=gate,
        down_scale=down,
        embedding_scale=fields.number("embedding_multiplier", 1.0),
        logits_scale=1 / fields.number("lm_head_multiplier", 1.0),
        norm_eps=fields.number("rms_norm_eps", 1e-5),
        context=fields.size("max_position_embeddings", 8192),
    )


def qwen3_next(fields: Fields) -> dict[str, Any]:
    """Return Qwen 3 Next's fields: of four layers one attends, whose gates read all; keys rotate a quarter."""
    count = count_layers(fields)
    every = fields.size("full_attention_interval", 4)
    kinds = _attending(fields) if fields.texts("layer_types") else [(i + 1) % every == 0 for i in range(count)]
    state = Recurrence(
        "correct",
        heads=fields.size("linear_num_value_heads", 32),
        groups=fields.size("linear_num_key_heads", 16),
        key=fields.size("linear_key_head_dim", 128),
        value=fields.size("linear_value_head_dim", 128),
        kernel=fields.size("linear_conv_kernel_dim", 4),
        gating="after_norm",
    )
    _check_groups(state)
    _refuse_other_activation(fields)
    experts = replace(
        qwen_experts(fields, 512, 512, 10),
        normalized=fields.flag("norm_topk_prob", True),
        shared=fields.size("shared_expert_intermediate_size", 512),
        shared_gate=True,
    )
    biases = dict.fromkeys(("qkv_bias", "out_bias"), fields.flag("attention_bias"))
    return biases | dict(
        head_dim=fields.size("head_dim", 256),
        head_norms=True,
        norm_offset=1.0,
        output_gates=True,
        **_by_layer(kinds, state),
        ropes=(read_rope(fields, share=0.25),) * count,
        mlps=sparse_layers(fields, experts),
    )


def lfm2(fields: Fields) -> dict[str, Any]:
    """Return LFM 2's fields: most layers convolve; the feed-forward part's size follows from another field."""
    count, hidden = count_layers(fields), fields.size("hidden_size")
    attending = set(fields.ids("full_attn_idxs")) if fields.has("full_attn_idxs", null=False) else set(range(count))
    kinds = _attending(fields) if fields.texts("layer_types") else [layer in attending for layer in range(count)]
    state = ShortConv(hidden, kernel=fields.size("conv_L_cache", 3), biased=fields.flag("conv_bias"))
    return dict(
        head_norms=True,
        **_by_layer(kinds, state),
        intermediate=_lfm2_intermediate(fields),
        norm_eps=fields.number("norm_eps", 1e-5),
        tied=fields.flag("tie_embedding", fields.flag("tie_word_embeddings", True)),
        ropes=(read_rope(fields, theta=1e6),) * count,
        context=fields.size("max_position_embeddings", 128_000),
    )


def _lfm2_intermediate(fields: Fields) -> int:
    size = fields.size("block_ff_dim", fields.size("intermediate_size", 12288))
    if not fields.flag("block_auto_adjust_ff_dim", True):
        return size
    size, unit = int(2 * size / 3), fields.size("block_multiple_of", 256)
    size = int(fields.number("block_ffn_dim_multiplier", 1.0) * size)
    return -(-size // unit) * unit


def _mamba(fields: Fields, inner: int, out_bias: bool | None = None, **others: Any) -> Recurrence:
    """Read Mamba's part of a hybrid model, whose heads have `inner` numbers in all."""
    heads = fields.size("mamba_n_heads", 128)
    given = fields.has("mamba_d_head", null=False) and not fields.is_text("mamba_d_head")
    value = fields.size("mamba_d_head") if given else inner // heads
    _check_heads(heads, value, inner)
    _refuse_other_activation(fields)
    bias = fields.flag("mamba_proj_bias")
    made = Recurrence(
        "add",
        heads,
        groups=fields.size("mamba_n_groups", 1),
        key=fields.size("mamba_d_state", 256),
        value=value,
        kernel=fields.size("mamba_d_conv", 4),
        conv_bias=fields.flag("mamba_conv_bias", True),
        in_bias=bias,
        out_bias=bias if out_bias is None else out_bias,
        **_step_limits(fields) | others,
    )
    _check_groups(made)
    return made


def _check_heads(heads: int, value: int, inner: int) -> None:
    if heads * value != inner:
        raise ModelError(f"config.json: {heads} heads of {value} numbers are not {inner}: fetch the model again")


def _check_groups(state: Recurrence) -> None:
    if state.heads % state.groups:
        raise ModelError(f"config.json: {state.heads} heads cannot share {state.groups} keys: fetch the model again")


def _step_limits(fields: Fields) -> dict[str, Any]:
    least, most = fields.numbers("time_step_limit", (0.0, math.inf))
    return dict(least_step=least, most_step=most)


def _refuse_other_activation(fields: Fields) -> None:
    if read_activation(fields, "silu") != "silu":
        raise UnknownArchitecture("the decoder does not know states without silu: use another model")


def _attending(fields: Fields) -> list[bool]:
    """Read which layers attend; the others keep a state."""
    attends, states = {FULL, "attention"}, {LINEAR, MAMBA, CONVOLVES}
    kinds = read_kinds(fields, attends | states)
    return [kind in attends for kind in kinds] if kinds else [False] * count_layers(fields)


def _by_layer(kinds: list[bool], state: State) -> dict[str, Any]:
    """Return what each layer has: attention, or else the state."""
    return dict(attends=tuple(kinds), states=tuple(None if each else state for each in kinds))
