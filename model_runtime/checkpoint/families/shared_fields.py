"""Reads the fields that many families have in common: activations, windows, rotations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import cast

from model_runtime.checkpoint.families.fields import Fields
from model_runtime.checkpoint.families.layer_spec import Activation, Rope, RopeKind
from model_runtime.errors import ModelError

ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}

SLIDES, FULL = "sliding_attention", "full_attention"  # transformers' names of kinds of layers


class UnknownArchitecture(ModelError):
    """Our own decoder does not know a part of the model."""


def read_activation(fields: Fields, default: str, name: str = "hidden_act") -> Activation:
    """Read an activation; UnknownArchitecture names an unknown one."""
    activation = fields.text(name, default)
    if activation not in ACTIVATIONS:
        raise UnknownArchitecture(
            f"the decoder does not know the activation {activation!r}: use a model with silu or gelu by tanh"
        )
    return ACTIVATIONS[activation]


def read_kv_heads(fields: Fields, heads: int, default: int) -> int:
    """Read how many heads of keys and values the query heads share."""
    kv_heads = fields.size("num_key_value_heads", default)
    if heads % kv_heads:
        raise ModelError(f"config.json: {heads} query heads cannot share {kv_heads} key heads: fetch the model again")
    return kv_heads


def count_layers(fields: Fields) -> int:
    """Read how many layers there are."""
    return fields.size("num_hidden_layers")


def read_sliding(fields: Fields, usual: Callable[[int], bool]) -> list[bool]:
    """Read which layers slide: `layer_types` names the kind of each, else it is as `usual` in the family."""
    kinds = read_kinds(fields, {SLIDES, FULL})
    return [kind == SLIDES for kind in kinds] if kinds else [usual(layer) for layer in range(count_layers(fields))]


def read_kinds(fields: Fields, known: Set[str]) -> Sequence[str]:
    """Read the kind of each layer, none if `layer_types`, or `layers_block_type`, does not name them.

    UnknownArchitecture names a kind that is not `known` in the family.
    """
    kinds, count = fields.texts("layer_types") or fields.texts("layers_block_type"), count_layers(fields)
    if unknown := sorted({*kinds} - known):
        raise UnknownArchitecture(f"the decoder does not know layers of {unknown[0]!r}: use another model")
    if kinds and len(kinds) != count:
        raise ModelError(f"config.json: layer_types has {len(kinds)} of {count} layers: fetch the model again")
    return kinds


def windows_of(slides: list[bool], window: int) -> tuple[int, ...]:
    """Return the window of each layer: none of those that do not slide."""
    return tuple(window if each else 0 for each in slides)


def read_rope(fields: Fields, share: float | None = None, theta: float = 10000.0) -> Rope:
    """Read the rotary embedding: version 4 has `rope_scaling` and `rope_theta`, version 5 `rope_parameters`.

    `share` is what a family usually rotates of a head, None if it always rotates all; `theta` its usual base.
    """
    inner = Fields(fields.object("rope_parameters") | fields.object("rope_scaling"))
    return rope_of(fields, inner, fields.number("rope_theta", theta), share)


def rope_of(fields: Fields, inner: Fields, theta: float = 10000.0, share: float | None = None) -> Rope:
    """Read a rotary embedding from its own fields; `theta` is its usual base, `share` as in `read_rope`."""
    kind = inner.text("rope_type", inner.text("type", "default"))
    rotated = inner.number("partial_rotary_factor", fields.number("partial_rotary_factor", share or 1.0))
    is_known = kind in ("default", "linear", "dynamic", "llama3", "yarn") and rotated <= 1
    if not is_known or (rotated != 1 and (share is None or kind == "yarn")):
        which = f"{kind!r} of {rotated:.0%} of a head"
        raise UnknownArchitecture(f"the decoder does not know rotary embedding {which}: use another model")
    return replace(_stretched(fields, inner, kind, inner.number("rope_theta", theta)), share=rotated)


def _stretched(fields: Fields, inner: Fields, kind: str, theta: float) -> Rope:
    if kind in ("default", "dynamic"):
        return Rope(theta)
    factor = inner.number("factor")
    longest = fields.size("max_position_embeddings", 2048)
    original = inner.size("original_max_position_embeddings", longest) if kind != "linear" else 0
    if kind == "llama3":
        slow, fast = inner.number("low_freq_factor"), inner.number("high_freq_factor")
        return Rope(theta, kind, factor, original, slow, fast)
    if kind == "yarn":
        slow, fast = inner.number("beta_slow", 1.0), inner.number("beta_fast", 32.0)
        attention = inner.number("attention_factor", _yarn_attention(inner, factor))
        return Rope(theta, kind, factor, original, slow, fast, attention, inner.flag("truncate", True))
    return Rope(theta, cast("RopeKind", kind), factor)


def _yarn_attention(inner: Fields, factor: float) -> float:
    """Return the factor that sharpens attention for longer texts (arXiv 2309.00071, section 3.4)."""
    if inner.flag("mscale") and inner.flag("mscale_all_dim"):
        return sharpened(factor, inner.number("mscale")) / sharpened(factor, inner.number("mscale_all_dim"))
    return sharpened(factor, 1.0)


def sharpened(factor: float, weight: float) -> float:
    """Return yarn's factor of attention for texts that are `factor` times as long."""
    return 0.1 * weight * math.log(max(factor, 1.0)) + 1.0
