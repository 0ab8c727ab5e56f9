"""What families compute whose queries and keys are convolved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from model_runtime.checkpoint.families.experts import read_experts
from model_runtime.checkpoint.families.fields import Fields
from model_runtime.checkpoint.families.layer_spec import Convolved
from model_runtime.checkpoint.families.shared_fields import (
    UnknownArchitecture,
    count_layers,
    read_activation,
    read_kinds,
    read_kv_heads,
    rope_of,
    windows_of,
)

CONVOLVES, SLIDES = "hybrid", "hybrid_sliding"  # transformers' names of kinds of layers
THETAS = {CONVOLVES: 5e6, SLIDES: 1e4}


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
