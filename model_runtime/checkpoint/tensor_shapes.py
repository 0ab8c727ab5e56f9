"""Which tensors a model of some shape consists of: usual names, families' own, shapes, what takes time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.expert_names import expert_shapes
from model_runtime.checkpoint.families.layer_spec import (
    GATE_INPUTS,
    AltUp,
    Attention,
    Convolved,
    Dense,
    Experts,
    Full,
    Latent,
    LayerSpec,
    Lookback,
    Mlp,
    Recurrence,
    ShortConv,
    State,
)

# Parts of names, and what a family has instead; one after the other.
_RENAMED: dict[str, tuple[tuple[str, str], ...]] = {
    "mamba2": (
        ("model.embed_tokens.", "backbone.embeddings."),
        ("model.norm.", "backbone.norm_f."),
        ("model.layers.", "backbone.layers."),
        (".input_layernorm.", ".norm."),
        (".state.", ".mixer."),
    ),
    "bamba": (
        ("model.norm.", "model.final_layernorm."),
        (".post_attention_layernorm.", ".pre_ff_layernorm."),
        (".mlp.", ".feed_forward."),
        (".state.", ".mamba."),
    ),
    "granitemoehybrid": (
        (".mlp.", ".shared_mlp."),
        (".gate_up_proj.", ".input_linear."),
        (".down_proj.", ".output_linear."),
        (".state.", ".mamba."),
    ),
    "qwen3_next": ((".state.", ".linear_attn."),),
    "lfm2": (
        ("model.norm.", "model.embedding_norm."),
        (".input_layernorm.", ".operator_norm."),
        (".post_attention_layernorm.", ".ffn_norm."),
        (".mlp.gate_proj.", ".feed_forward.w1."),
        (".mlp.up_proj.", ".feed_forward.w3."),
        (".mlp.down_proj.", ".feed_forward.w2."),
        (".self_attn.o_proj.", ".self_attn.out_proj."),
        (".q_norm.", ".q_layernorm."),
        (".k_norm.", ".k_layernorm."),
        (".state.conv1d.", ".conv.conv."),
        (".state.", ".conv."),
    ),
}
_RENAMED["falcon_h1"] = _RENAMED["bamba"]
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
TOKEN_VALUES = "model.token_values.weight"  # for each token, the values of all layers side by side
EARLY_NORM = "model.norm_swiftkv"  # of the stream that early layers' keys and values are made of
OWN_INPUTS = "model.embed_tokens_per_layer.weight"  # the same
# Where residuals are scaled: the output of each part of a layer, its residual, and the embedding.
RESIDUALS = ("post_attention_residual_scale", "post_mlp_residual_scale")
RESIDUAL_SCALES = ("hidden_states_bias", "hidden_states_scale", "residual_bias", "residual_scale")
INPUT_SCALES = ("input_hidden_states_bias", "input_hidden_states_scale")
LOOKED_UP = (TOKEN_VALUES, OWN_INPUTS)  # in a mapped file, unless it is compact: most rows are never read


def stored_name(family: str, name: str) -> str:
    """Return the name that a family's checkpoints have for a tensor, or for the beginning of such a name."""
    for usual, own in _RENAMED.get(family, ()):
        name = name.replace(usual, own)
    return name


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the usual names and the shapes of the tensors that the decoder needs."""
    c = config
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (c.vocab, c.hidden)}
    _add_norm(shapes, c, "model.norm")
    if c.first_early is not None:
        _add_norm(shapes, c, EARLY_NORM)
    if has_token_values(c):
        shapes[TOKEN_VALUES] = (c.vocab, len(c.layers) * c.full.kv_heads * c.full.head_dim)
    if not c.tied:
        shapes[HEAD] = (c.vocab, c.hidden)
    for i, layer in enumerate(c.layers):
        at = f"model.layers.{i}."
        for name in filter(None, norm_names(layer)):
            _add_norm(shapes, c, at + name)
        # All matrices but the experts': name, outputs, inputs, and whether there is a bias.
        products = [*_of_attention(layer, c.hidden), *_of_state(layer.state, c.hidden), *_of_mlp(layer.mlp, c.hidden)]
        for name, out, into, biased in products:
            shapes[f"{at}{name}.weight"] = (out, into)
            if biased:
                shapes[f"{at}{name}.bias"] = (out,)
        if isinstance(layer.mlp, Experts):
            of_experts = expert_shapes(c.family, layer.mlp, c.hidden)
            shapes |= {at + name: shape for name, shape in of_experts.items()}
        small = _small_of_attention(layer) | _small_of_state(layer.state)
        if c.altup is not None:
            small |= _layer_of_altup(c.altup, c.hidden)
        if c.scaled_residuals:
            small |= dict.fromkeys((f"{part}.{name}" for part in RESIDUALS for name in RESIDUAL_SCALES), (c.hidden,))
        shapes |= {at + name: shape for name, shape in small.items()}
    if c.altup is not None:
        shapes |= _around_altup(c.altup, c.hidden, len(c.layers))
    if c.scaled_residuals:
        shapes |= dict.fromkeys((f"model.{name}" for name in INPUT_SCALES), (c.hidden,))
    return shapes


def has_token_values(config: ModelConfig) -> bool:
    """Return whether the embedding of a token is added to its values, in each layer."""
    return any(isinstance(each, Full) and each.token_values for each in config.attentions)


def _small_of_attention(layer: LayerSpec) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of attention's tensors other than matrices."""
    shapes, attention = dict[str, tuple[int, ...]](), layer.attention
    if isinstance(attention, Latent):
        shapes["self_attn.kv_a_layernorm.weight"] = (attention.rank,)
        if attention.query_rank:
            shapes["self_attn.q_a_layernorm.weight"] = (attention.query_rank,)
    elif isinstance(attention, Convolved):
        shapes |= _of_convolutions(attention)
    elif attention is not None:
        if attention.head_norms:
            names = "self_attn.q_norm.weight", "self_attn.k_norm.weight"
            shapes |= dict.fromkeys(names if layer.reads is None else names[:1], (attention.head_dim,))
        if attention.head_gates:
            shapes["self_attn.head_gates.weight"] = (attention.heads, GATE_INPUTS)
        if attention.sinks:
            shapes["self_attn.sinks"] = (attention.heads,)
    return shapes


def _of_convolutions(a: Convolved) -> dict[str, tuple[int, ...]]:
    kernels = {"depthwise": (a.convolved, 1, a.by_channel), "grouped": (a.convolved, a.head_dim, a.by_head)}
    shapes: dict[str, tuple[int, ...]] = {"self_attn.qk_norm.temp": (a.kv_heads,)}
    for name, shape in kernels.items():
        at = f"self_attn.qkv_proj.conv_qk_{name}"
        shapes |= {f"{at}.weight": shape, f"{at}.bias": (a.convolved,)}
    return shapes


def _small_of_state(state: State | None) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a state's tensors other than matrices."""
    if state is None or isinstance(state, Lookback):
        return {}
    shapes: dict[str, tuple[int, ...]] = {"state.conv1d.weight": (state.channels, 1, state.kernel)}
    if state.biased if isinstance(state, ShortConv) else state.conv_bias:
        shapes["state.conv1d.bias"] = (state.channels,)
    if isinstance(state, Recurrence):
        shapes |= dict.fromkeys(("state.dt_bias", "state.A_log"), (state.heads,))
        if state.rule == "add":
            shapes["state.D"] = (state.heads,)
        if state.gating != "alone":
            shapes["state.norm.weight"] = (state.value if state.rule == "correct" else state.inner,)
    return shapes


class NormNames(NamedTuple):
    """The names of a layer's norms: before its parts and after them, None for those that it does not have.

    A state reads what the norm before attention makes.
    """

    attention: str
    mlp: str | None
    after_attention: str | None
    after_mlp: str | None


def norm_names(layer: LayerSpec) -> NormNames:
    """Return the names of a layer's norms; the feed-forward part of parallel ones reads the attention's."""
    if layer.mlp is None:
        return NormNames("input_layernorm", None, None, None)
    if layer.norms_after:
        after = "post_attention_layernorm", "post_feedforward_layernorm"
        return NormNames("input_layernorm", "pre_feedforward_layernorm", *after)
    return NormNames("input_layernorm", None if layer.parallel else "post_attention_layernorm", None, None)


def computed_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the tensors that passes compute with: values of tokens are looked up in a mapped file."""
    return {name: shape for name, shape in expected_shapes(config).items() if name not in LOOKED_UP}


def count_parameters(config: ModelConfig) -> int:
    """Count the parameters that passes compute with: all but those that are looked up by token."""
    return sum(map(prod, computed_shapes(config).values()))


def count_active(config: ModelConfig) -> int:
    """Count the parameters that a token is computed with: of a layer's experts those that it chooses."""
    idle = sum((each.count - each.chosen) * _of_expert(each, config.hidden) for each in _experts(config))
    return count_parameters(config) - idle


def count_experts(config: ModelConfig) -> int:
    """Count the parameters of all layers' experts, without shared ones."""
    return sum(each.count * _of_expert(each, config.hidden) for each in _experts(config))


def _experts(config: ModelConfig) -> Iterator[Experts]:
    return (layer.mlp for layer in config.layers if isinstance(layer.mlp, Experts))


def _of_expert(experts: Experts, hidden: int) -> int:
    return 3 * experts.intermediate * hidden


def _add_norm(shapes: dict[str, tuple[int, ...]], config: ModelConfig, name: str) -> None:
    shapes[f"{name}.weight"] = (config.hidden,)
    if config.norm == "layer" and config.norm_bias:
        shapes[f"{name}.bias"] = (config.hidden,)


def _of_mlp(m: Mlp | None, hidden: int) -> list[tuple[str, int, int, bool]]:
    if not isinstance(m, Dense):
        return []
    names, down = up_names(m)
    rows = m.intermediate * (2 if m.joined else 1)
    ups = [(f"mlp.{name}", rows, hidden, m.mlp_bias) for name in names]
    return [*ups, (f"mlp.{down}", hidden, m.intermediate, m.mlp_bias)]


def up_names(m: Dense) -> tuple[list[str], str]:
    """Return the names of the matrices in front of a dense part, and the name of the matrix behind it."""
    if m.joined:
        return ["gate_up_proj"], "down_proj"
    return (["gate_proj", "up_proj"], "down_proj") if m.gated else (["c_fc"], "c_proj")


def _of_state(state: State | None, hidden: int) -> list[tuple[str, int, int, bool]]:
    if state is None or isinstance(state, Lookback):
        return []
    if isinstance(state, ShortConv):
        into = [("state.in_proj", 3 * state.channels, hidden, state.biased)]
        return [*into, ("state.out_proj", hidden, state.channels, state.biased)]
    if state.rule == "correct":
        both = ("state.in_proj_qkvz", state.channels + state.inner), ("state.in_proj_ba", 2 * state.heads)
        into = [(name, rows, hidden, False) for name, rows in both]
    else:
        into = [("state.in_proj", state.inner + state.channels + state.heads, hidden, state.in_bias)]
    return [*into, ("state.out_proj", hidden, state.inner, state.out_bias)]


def _of_attention(layer: LayerSpec, hidden: int) -> list[tuple[str, int, int, bool]]:
    if layer.attention is None:
        return []
    left_out, suffix = () if layer.reads is None else ("k_proj", "v_proj"), early_suffix(layer)
    found = [each for each in _of_heads(layer.attention, hidden) if each[0] not in left_out]
    return [
        (f"self_attn.{name}{suffix if name != 'o_proj' else ''}", rows, columns, biased)
        for name, rows, columns, biased in found
    ]


def early_suffix(layer: LayerSpec) -> str:
    """Return how the names of an early layer's matrices end, except the last."""
    return "_swiftkv" if layer.early else ""


def _of_heads(a: Attention, hidden: int) -> list[tuple[str, int, int, bool]]:
    if isinstance(a, Latent):
        queries = a.heads * a.query
        into = [("q_proj", queries, hidden, False)]
        if a.query_rank:
            into = [("q_a_proj", a.query_rank, hidden, a.first_bias), ("q_b_proj", queries, a.query_rank, False)]
        return [
            *into,
            ("kv_a_proj_with_mqa", a.rank + a.rotated, hidden, a.first_bias),
            ("kv_b_proj", a.heads * (a.plain + a.value), a.rank, False),
            ("o_proj", hidden, a.heads * a.value, a.out_bias),
        ]
    q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
    if isinstance(a, Convolved):
        sizes = {"q_proj": q, "k_proj": kv, "v_proj_current": a.half_values, "v_proj_delayed": a.half_values}
        into = [(f"qkv_proj.{name}", rows, hidden, a.biased) for name, rows in sizes.items()]
        return [*into, ("o_proj", hidden, q, a.biased)]
    return [
        ("q_proj", q * (1 + a.output_gates), hidden, a.qkv_bias),
        ("k_proj", kv, hidden, a.qkv_bias),
        ("v_proj", kv, hidden, a.qkv_bias),
        ("o_proj", hidden, q, a.out_bias),
    ]


def _layer_of_altup(a: AltUp, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the tensors that correct all streams, and of the layer's own input."""
    return {
        "altup.correct_output_scale": (hidden,),
        "altup.correction_coefs.weight": (a.streams, a.streams),
        "altup.prediction_coefs.weight": (a.streams**2, a.streams),
        "altup.modality_router.weight": (a.streams, hidden),
        "altup.router_norm.weight": (hidden,),
        "laurel.linear_left.weight": (a.rank, hidden),
        "laurel.linear_right.weight": (hidden, a.rank),
        "laurel.post_laurel_norm.weight": (hidden,),
        "per_layer_input_gate.weight": (a.own, hidden),
        "per_layer_projection.weight": (hidden, a.own),
        "post_per_layer_input_norm.weight": (hidden,),
    }


def _around_altup(a: AltUp, hidden: int, layers: int) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of what makes all streams of one and one of all, and layers' own inputs."""
    names = [f"model.altup_{what}projections.{i}.weight" for what in ("", "unembed_") for i in range(a.streams - 1)]
    return dict.fromkeys(names, (hidden, hidden)) | {
        OWN_INPUTS: (a.own_vocab, layers * a.own),
        "model.per_layer_model_projection.weight": (layers * a.own, hidden),
        "model.per_layer_projection_norm.weight": (a.own,),
    }
