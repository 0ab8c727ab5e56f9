"""What a layer of a model computes: its attention and its feed-forward part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GATE_INPUTS = 16  # the first elements of a layer's normed input

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True)
class Full:
    """Attention of each token to all before it; `heads` of queries share `kv_heads` of keys and values.

    `query_scale` multiplies queries. With `head_norms` each head of queries and keys is normed before its rotation;
    with `head_gates` each head's output is scaled by a gate that reads GATE_INPUTS elements of the normed input; with
    `token_values` values have an embedding of their own token added.
    """

    heads: int
    kv_heads: int
    head_dim: int
    query_scale: float = 1.0
    head_norms: bool = False
    head_gates: bool = False
    token_values: bool = False
    qkv_bias: bool = False
    out_bias: bool = False


@dataclass(frozen=True)
class Dense:
    """A feed-forward part that computes all of its weights for each token; `gated` has two matrices in front."""

    intermediate: int
    activation: Activation = "silu"
    gated: bool = True
    mlp_bias: bool = False


Attention = Full  # one of a union, once there is another
Mlp = Dense  # likewise


@dataclass(frozen=True)
class LayerSpec:
    """The parts of one layer."""

    attention: Attention
    mlp: Mlp
