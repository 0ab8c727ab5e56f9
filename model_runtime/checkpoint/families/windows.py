"""What families with windows that slide in some of their layers compute."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from model_runtime.checkpoint.families.dense import gemma
from model_runtime.checkpoint.families.fields import Fields
from model_runtime.checkpoint.families.layer_spec import AltUp, Dense, Rope
from model_runtime.checkpoint.families.shared_fields import (
    FULL,
    SLIDES,
    UnknownArchitecture,
    count_layers,
    read_activation,
    read_rope,
    read_sliding,
    rope_of,
    windows_of,
)
from model_runtime.errors import ModelError


def gemma2(fields: Fields) -> dict[str, Any]:
    """Return Gemma 2's fields: every other layer slides; scores and logits are capped."""
    window = fields.size("sliding_window", 4096)
    return _gemma_with_windows(fields) | dict(
        windows=windows_of(read_sliding(fields, lambda layer: layer % 2 == 0), window),
        score_cap=_cap(fields, "attn_logit_softcapping", 50.0),
        logits_cap=_cap(fields, "final_logit_softcapping", 30.0),
    )


def gemma3(fields: Fields) -> dict[str, Any]:
    """Return Gemma 3's fields: of six layers five slide, with a separate rotation; heads are normed."""
    every = fields.size("sliding_window_pattern", 6)
    slides = read_sliding(fields, lambda layer: (layer + 1) % every > 0)
    full, sliding = _gemma3_ropes(fields)
    return _gemma_with_windows(fields) | dict(
        head_norms=True,
        windows=windows_of(slides, fields.size("sliding_window", 4096)),
        ropes=tuple(sliding if each else full for each in slides),
        score_cap=_cap(fields, "attn_logit_softcapping"),
        logits_cap=_cap(fields, "final_logit_softcapping"),
    )


def gemma3n(fields: Fields) -> dict[str, Any]:
    """Return Gemma 3n's fields: the last layers read keys and values of the last one of their kind before them."""
    count = count_layers(fields)
    slides = read_sliding(fields, lambda layer: (layer + 1) % 5 > 0)
    full, sliding = _gemma3_ropes(fields)
    sparse = (0.95,) * 10 + (0.0,) * (count - 10) if count > 10 else (0.0,) * count
    activation = read_activation(fields, "gelu_pytorch_tanh", "hidden_activation")
    sizes, sparsities = _by_layer(fields, count), fields.numbers("activation_sparsity_pattern", sparse)
    mlps = [Dense(size, activation, sparsity=each) for size, each in zip(sizes, sparsities, strict=True)]
    return gemma(fields) | dict(
        norm_offset=0.0,
        norms_after=True,
        head_norms=True,
        value_norms=True,
        query_scale=math.sqrt(fields.size("head_dim", 256)),
        windows=windows_of(slides, fields.size("sliding_window", 512)),
        ropes=tuple(sliding if each else full for each in slides),
        reads=_reads(slides, fields.count("num_kv_shared_layers", 15)),
        mlps=tuple(mlps),
        intermediate=max(sizes),
        logits_cap=_cap(fields, "final_logit_softcapping", 30.0),
        altup=AltUp(
            streams=fields.size("altup_num_inputs", 4),
            active=fields.count("altup_active_idx", 0),
            rank=fields.size("laurel_rank", 64),
            own=fields.size("hidden_size_per_layer_input", 256),
            own_vocab=fields.size("vocab_size_per_layer_input", 262_144),
            scaled=fields.flag("altup_correct_scale", True),
        ),
    )


def _by_layer(fields: Fields, count: int) -> tuple[int, ...]:
    """Read the size of each layer's feed-forward part: one for all, or a list."""
    if not fields.is_list("intermediate_size"):
        return (fields.size("intermediate_size", 16_384),) * count
    return tuple(map(int, fields.numbers("intermediate_size", (1.0,) * count)))


def _reads(slides: list[bool], shared: int) -> tuple[int | None, ...]:
    """Return the layer whose keys and values each layer reads, None of those that have their own."""
    own = len(slides) - shared
    last = {kind: layer for layer, kind in enumerate(slides[:own])}
    if missing := set(slides[own:]) - last.keys():
        what = "slides" if True in missing else "sees all"
        raise ModelError(f"config.json: no layer that {what} has keys to share: fetch the model again")
    return tuple(None if layer < own else last[kind] for layer, kind in enumerate(slides))


def _gemma_with_windows(fields: Fields) -> dict[str, Any]:
    """Return what Gemma 2 and 3 have in common: norms after each part, and scores scaled by a field."""
    if fields.flag("use_bidirectional_attention"):
        raise UnknownArchitecture(
            "the decoder does not know attention to later tokens: use a model that generates text"
        )
    head_dim = fields.size("head_dim", 256)
    return gemma(fields) | dict(
        norms_after=True,
        activation=read_activation(fields, "gelu_pytorch_tanh", "hidden_activation"),
        query_scale=math.sqrt(head_dim / fields.number("query_pre_attn_scalar", 256)),
    )


def _gemma3_ropes(fields: Fields) -> tuple[Rope, Rope]:
    """Read the rotations of full and of sliding layers; version 4 has them in fields of different names."""
    by_kind = Fields(fields.object("rope_parameters"))
    if by_kind.has(FULL) or by_kind.has(SLIDES):
        full, sliding = (by_kind.object(kind) for kind in (FULL, SLIDES))
        return rope_of(fields, Fields(full), 1e6), rope_of(fields, Fields(sliding), 1e4)
    local = Fields({"rope_theta": fields.number("rope_local_base_freq", 1e4)})
    return rope_of(fields, Fields(fields.object("rope_scaling")), fields.number("rope_theta", 1e6)), rope_of(
        fields, local
    )


def cohere2(fields: Fields) -> dict[str, Any]:
    """Return Command R7B's fields: both parts read one norm; of four layers three slide, and only these rotate."""
    bias, every = fields.flag("attention_bias"), fields.size("sliding_window_pattern", 4)
    slides = read_sliding(fields, lambda layer: (layer + 1) % every > 0)
    rope = replace(read_rope(fields), interleaved=True)
    return dict(
        qkv_bias=bias,
        out_bias=bias,
        norm="layer",
        norm_bias=False,
        norm_eps=fields.number("layer_norm_eps", 1e-5),
        activation=read_activation(fields, "silu"),
        parallel=True,
        logits_scale=1 / fields.number("logit_scale", 0.0625),
        tied=fields.flag("tie_word_embeddings", True),
        windows=windows_of(slides, fields.size("sliding_window", 4096)),
        ropes=tuple(rope if each else Rope(kind="none") for each in slides),
    )


def _cap(fields: Fields, name: str, default: float | None = None) -> float:
    """Read a cap; null, or a field that is missing without a default, is none."""
    if fields.has(name) and not fields.has(name, null=False):
        return 0.0
    return fields.number(name, default) if fields.has(name) or default else 0.0
