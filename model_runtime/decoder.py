"""The transformer of the Llama lineage (Llama, Qwen2), written for one sequence and a growing cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from model_runtime.arena import Arena
from model_runtime.attention import attend, causal_bias
from model_runtime.config import ModelConfig
from model_runtime.ids import Ids
from model_runtime.linear import Format, Linear, linear
from model_runtime.weights import Weights


class Layer(NamedTuple):
    """One block; q, k, v and gate, up are fused so that each input row is read once."""

    norm_in: torch.Tensor
    qkv: Linear
    out: Linear
    norm_mlp: torch.Tensor
    gate_up: Linear
    down: Linear


class Decoder:
    """Computes logits of tokens appended to an arena. Used on the engine thread only."""

    def __init__(self, config: ModelConfig, weights: Weights, form: Format) -> None:
        """Prepare the weights; `weights` may be dropped afterwards."""
        self.config = config
        self._embed = weights["model.embed_tokens.weight"].float()
        head = weights["model.embed_tokens.weight" if config.tied else "lm_head.weight"]
        self._head = linear(head, None, form)
        self._norm = weights["model.norm.weight"].float()
        self._layers = [_layer(config, weights, i, form) for i in range(config.layers)]
        self._rope = _rotations(config)

    @property
    def rotations(self) -> npt.NDArray[np.complex64]:
        """What keys in arenas were multiplied by, [context, head_dim / 2], a view."""
        return self._rope.numpy()

    @torch.inference_mode()
    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        c, start, new = self.config, arena.length, len(ids)
        end = start + new
        rope = self._rope[start:end, None]
        bias = causal_bias(new, end, c.heads // c.kv_heads)
        x = self._embed[torch.as_tensor(ids)]
        for i, layer in enumerate(self._layers):
            x = x + self._attention(layer, x, rope, bias, arena.k[i], arena.v[i], start)
            x = x + self._mlp(layer, x)
        arena.append(ids)
        return self._head(self._normed(x[-rows:], self._norm))

    def _attention(
        self,
        layer: Layer,
        x: torch.Tensor,
        rope: torch.Tensor,
        bias: torch.Tensor | None,
        k: torch.Tensor,
        v: torch.Tensor,
        start: int,
    ) -> torch.Tensor:
        c, new = self.config, x.shape[0]
        qkv = layer.qkv(self._normed(x, layer.norm_in)).view(new, c.heads + 2 * c.kv_heads, c.head_dim)
        rotated = _rotate(qkv[:, : c.heads + c.kv_heads], rope)
        k[:, start : start + new] = rotated[:, c.heads :].transpose(0, 1)
        v[:, start : start + new] = qkv[:, c.heads + c.kv_heads :].transpose(0, 1)
        end = start + new
        return layer.out(attend(rotated[:, : c.heads], k[:, :end], v[:, :end], bias, c.head_dim**-0.5))

    def _mlp(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        gate, up = layer.gate_up(self._normed(x, layer.norm_mlp)).chunk(2, dim=-1)
        return layer.down(F.silu(gate).mul_(up))

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (self.config.hidden,), weight, self.config.norm_eps)


def _layer(config: ModelConfig, weights: Weights, index: int, form: Format) -> Layer:
    at = f"model.layers.{index}."

    def fused(*names: str, suffix: str = "weight") -> torch.Tensor:
        parts = [weights[f"{at}{name}.{suffix}"].float() for name in names]
        return torch.cat([_paired(p, config) if n[-6:] in ("q_proj", "k_proj") else p
                          for n, p in zip(names, parts, strict=True)])  # fmt: skip

    qkv = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    bias = fused(*qkv, suffix="bias") if f"{at}{qkv[0]}.bias" in weights else None
    return Layer(
        norm_in=weights[at + "input_layernorm.weight"].float(),
        qkv=linear(fused(*qkv), bias, form),
        out=linear(fused("self_attn.o_proj"), None, form),
        norm_mlp=weights[at + "post_attention_layernorm.weight"].float(),
        gate_up=linear(fused("mlp.gate_proj", "mlp.up_proj"), None, form),
        down=linear(fused("mlp.down_proj"), None, form),
    )


def _paired(rows: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """Put the two halves of every head side by side: dimension i next to i + head_dim / 2.

    Rotary embedding turns those two as one complex number, so that rotating is one product. Queries and keys are
    permuted alike, which leaves their dot products as they were; keys in arenas are in this order.
    """
    half = config.head_dim // 2
    return rows.view(-1, 2, half, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def _rotations(config: ModelConfig) -> torch.Tensor:
    """Complex rotations [context, head_dim / 2] of rotary position embedding (arXiv 2104.09864)."""
    powers = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    angles = torch.outer(torch.arange(config.context, dtype=torch.float32), config.rope_theta**-powers)
    return torch.polar(torch.ones_like(angles), angles)


def _rotate(heads: torch.Tensor, rope: torch.Tensor) -> torch.Tensor:
    """Rotate heads [n, heads, dim] by rope [n, 1, dim / 2]."""
    pairs = torch.view_as_complex(heads.view(*heads.shape[:2], -1, 2))
    return torch.view_as_real(pairs * rope).flatten(-2)
