"""The transformer of the Llama lineage (Llama, Qwen2), written for growing caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from model_runtime.arena import Arena
from model_runtime.attention import attend, causal_bias
from model_runtime.config import ModelConfig
from model_runtime.ids import Ids
from model_runtime.linear import Format, Linear, linear
from model_runtime.pace import CHUNK
from model_runtime.weights import Weights


class Layer(NamedTuple):
    """One block, ready to be computed."""

    norm_in: torch.Tensor
    qkv: Linear
    out: Linear
    norm_mlp: torch.Tensor
    gate_up: Linear
    down: Linear


class Span(NamedTuple):
    """Tokens that a pass appends to one arena; its last `rows` get logits."""

    ids: Ids
    arena: Arena
    rows: int = 1


class AnyDecoder(Protocol):
    """What computes: this module's, the compiled one, or a GPU's. Used on the engine thread only."""

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        ...

    @property
    def chunk(self) -> int:
        """Rows of one prefill pass: how long a newer request may have to wait."""
        ...

    @property
    def rotations(self) -> npt.NDArray[np.complex64]:
        """What keys in arenas were multiplied by, [context, head_dim / 2]."""
        ...

    def forward(self, ids: Ids, arena: Arena, rows: int = 1, /) -> torch.Tensor:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        ...

    def forward_spans(self, spans: Sequence[Span], /) -> torch.Tensor:
        """Append to several arenas, each another, in one pass; returns the spans' logits [sum of rows, vocab]."""
        ...


class _Place(NamedTuple):
    """Where a span stands: `at` in the rows of its pass, from `start` to `end` in its arena."""

    arena: Arena
    at: slice
    start: int
    end: int
    bias: torch.Tensor | None

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
        """Write keys and values [new, kv_heads, dim] into the arena and attend q [new, heads, dim] over it."""
        keys, values = self.arena.k[layer], self.arena.v[layer]
        keys[:, self.start : self.end] = k.transpose(0, 1)
        values[:, self.start : self.end] = v.transpose(0, 1)
        return attend(q, keys[:, : self.end], values[:, : self.end], self.bias, scale)


class Decoder:
    """Computes logits of tokens appended to an arena. Used on the engine thread only."""

    chunk = CHUNK

    def __init__(self, config: ModelConfig, weights: Weights, form: Format) -> None:
        """Prepare the weights; `weights` may be dropped afterwards."""
        self.config = config
        self._embed = weights["model.embed_tokens.weight"]
        head = weights["model.embed_tokens.weight" if config.tied else "lm_head.weight"]
        self._head = linear(head, None, form)
        self._norm = weights["model.norm.weight"].float()
        self._layers = [_layer(config, weights, i, form) for i in range(config.layers)]
        self._rope = rotations(config)

    @property
    def rotations(self) -> npt.NDArray[np.complex64]:
        """What keys in arenas were multiplied by, [context, head_dim / 2], a view."""
        return self._rope.numpy()

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        return self.forward_spans([Span(ids, arena, rows)])

    @torch.inference_mode()
    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        """Append to several arenas, each another, in one pass; returns the spans' logits [sum of rows, vocab]."""
        places = _places(spans, self.config)
        rope = _joined([self._rope[place.start : place.end, None] for place in places])
        x = self._embed[torch.as_tensor(np.concatenate([span.ids for span in spans]))].float()
        for i, layer in enumerate(self._layers):
            x = x + self._attention(layer, x, rope, places, i)
            x = x + self._mlp(layer, x)
        for span in spans:
            span.arena.append(span.ids)
        ends = _joined(
            [x[place.at.stop - span.rows : place.at.stop] for span, place in zip(spans, places, strict=True)]
        )
        return self._head(self._normed(ends, self._norm))

    def _attention(
        self, layer: Layer, x: torch.Tensor, rope: torch.Tensor, places: list[_Place], index: int
    ) -> torch.Tensor:
        c, new = self.config, x.shape[0]
        qkv = layer.qkv(self._normed(x, layer.norm_in)).view(new, c.heads + 2 * c.kv_heads, c.head_dim)
        rotated = _rotate(qkv[:, : c.heads + c.kv_heads], rope)
        q, k, v = rotated[:, : c.heads], rotated[:, c.heads :], qkv[:, c.heads + c.kv_heads :]
        seen = [place.attend(index, q[place.at], k[place.at], v[place.at], c.head_dim**-0.5) for place in places]
        return layer.out(_joined(seen))

    def _mlp(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        gate, up = layer.gate_up(self._normed(x, layer.norm_mlp)).chunk(2, dim=-1)
        return layer.down(F.silu(gate).mul_(up))

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (self.config.hidden,), weight, self.config.norm_eps)


def _places(spans: Sequence[Span], config: ModelConfig) -> list[_Place]:
    places: list[_Place] = []
    row = 0
    for ids, arena, _ in spans:
        start, new = arena.length, len(ids)
        bias = causal_bias(new, start + new, config.heads // config.kv_heads)
        places.append(_Place(arena, slice(row, row + new), start, start + new, bias))
        row += new
    return places


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """Most passes have one span: nothing is copied then."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class Parts(NamedTuple):
    """One block's weights in fp32, [out, in]; q, k, v and gate, up are fused so that each input row is read once."""

    norm_in: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    out: torch.Tensor
    norm_mlp: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


def fused(config: ModelConfig, weights: Weights, index: int) -> Parts:
    """Put together what one layer multiplies with; rows of queries and keys are permuted (see `_paired`)."""
    at = f"model.layers.{index}."

    def joined(*names: str, suffix: str = "weight") -> torch.Tensor:
        parts = [weights[f"{at}{name}.{suffix}"].float() for name in names]
        return torch.cat([_paired(p, config) if n[-6:] in ("q_proj", "k_proj") else p
                          for n, p in zip(names, parts, strict=True)])  # fmt: skip

    qkv = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return Parts(
        norm_in=weights[at + "input_layernorm.weight"].float(),
        qkv=joined(*qkv),
        qkv_bias=joined(*qkv, suffix="bias") if f"{at}{qkv[0]}.bias" in weights else None,
        out=joined("self_attn.o_proj"),
        norm_mlp=weights[at + "post_attention_layernorm.weight"].float(),
        gate_up=joined("mlp.gate_proj", "mlp.up_proj"),
        down=joined("mlp.down_proj"),
    )


def _layer(config: ModelConfig, weights: Weights, index: int, form: Format) -> Layer:
    parts = fused(config, weights, index)
    return Layer(
        norm_in=parts.norm_in,
        qkv=linear(parts.qkv, parts.qkv_bias, form),
        out=linear(parts.out, None, form),
        norm_mlp=parts.norm_mlp,
        gate_up=linear(parts.gate_up, None, form),
        down=linear(parts.down, None, form),
    )


def _paired(rows: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """Put the two halves of every head side by side: dimension i next to i + head_dim / 2.

    Rotary embedding turns those two as one complex number, so that rotating is one product. Queries and keys are
    permuted alike, which leaves their dot products as they were; keys in arenas are in this order.
    """
    half = config.head_dim // 2
    return rows.view(-1, 2, half, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def rotations(config: ModelConfig) -> torch.Tensor:
    """Complex rotations [context, head_dim / 2] of rotary position embedding (arXiv 2104.09864)."""
    powers = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    angles = torch.outer(torch.arange(config.context, dtype=torch.float32), config.rope_theta**-powers)
    return torch.polar(torch.ones_like(angles), angles)


def _rotate(heads: torch.Tensor, rope: torch.Tensor) -> torch.Tensor:
    """Rotate heads [n, heads, dim] by rope [n, 1, dim / 2]."""
    pairs = torch.view_as_complex(heads.view(*heads.shape[:2], -1, 2))
    return torch.view_as_real(pairs * rope).flatten(-2)
