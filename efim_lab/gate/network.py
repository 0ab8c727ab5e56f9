"""The embedded model's network in plain torch.

It is a Llama with what the experiments on small budgets recommend, each part by itself (docs/benchmarks/training.md).
Without any of them it is a Llama of transformers, with the same names of weights. Decoders are compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.families.layer_spec import GATE_INPUTS

ROPE_BASE, NORM_EPSILON = 10000.0, 1e-5
VOCABULARY, CONTEXT, PADDING_ID = 8192, 2560, 4  # of the embedded model's tokenizer, in tokens
_SPREAD = 0.02  # standard deviation of random weights


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a decoder with tied embeddings, and its parts that a Llama lacks, none by default.

    `head_norms` are RMS norms of each head of queries and keys; `head_gates` scale each head of attention's output;
    `token_values` are embeddings of the token itself that are added to each layer's values. `zero_outputs`: the
    matrices that write to the stream begin at zero.
    """

    vocabulary: int = VOCABULARY
    width: int = 320
    layers: int = 8
    heads: int = 5
    kv_heads: int = 1
    head_dim: int = 64
    feed_forward: int = 864
    context: int = CONTEXT
    head_norms: bool = False
    head_gates: bool = False
    token_values: bool = False
    zero_outputs: bool = False

    def describe(self) -> str:
        """Name the architecture and its parts."""
        named = {
            "norms of queries and keys": self.head_norms,
            "gates on attention's heads": self.head_gates,
            "values of tokens": self.token_values,
        }
        parts = [name for name, has in named.items() if has]
        if not parts:
            return "a Llama"
        *others, last = parts
        return f"a Llama with {', '.join(others)}{' and ' * bool(others)}{last}"


# What the experiments recommend: the embedded model, 11.2 million parameters and 4.2 million token values.
EMBEDDED_SHAPE = Shape(head_norms=True, head_gates=True, token_values=True, zero_outputs=True)


def read_shape(folder: Path) -> Shape:
    """Read the shape of a finished model that `build` made."""
    config = read_config(folder)
    attention, mlp = config.full, config.dense
    return Shape(
        vocabulary=config.vocab,
        width=config.hidden,
        layers=len(config.layers),
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        feed_forward=mlp.intermediate,
        context=config.context,
        head_norms=attention.head_norms,
        head_gates=attention.head_gates,
        token_values=attention.token_values,
    )


class Logits(NamedTuple):
    """What a model computes, as transformers' models answer."""

    logits: Tensor


class RmsNorm(nn.Module):
    """A root mean square norm that sums in fp32, whatever autocast makes of its input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Return x [.., size], normed and weighted."""
        return rms_norm(x, self.weight)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Return x [.., size], normed in fp32 and weighted."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + NORM_EPSILON)).to(x.dtype)


class EfimForCausalLM(nn.Module):
    """A decoder over whole rows, called as transformers' models are."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = EfimModel(shape)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, use_cache: bool = False) -> Logits:
        """Return the logits [rows, length, vocabulary] of token ids [rows, length].

        `attention_mask` [rows, 1, length, length] says which keys each query sees: by default all before it.
        """
        assert not use_cache
        return Logits(self.model(input_ids, attention_mask) @ self.model.embed_tokens.weight.T)


class EfimModel(nn.Module):
    """The stream from token ids to what the output layer reads."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width, padding_idx=PADDING_ID)
        self.layers = nn.ModuleList(EfimLayer(shape) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.width)
        values = shape.layers * shape.kv_heads * shape.head_dim
        self.token_values = nn.Embedding(shape.vocabulary, values) if shape.token_values else None

    def blocks(self) -> list[EfimLayer]:
        """Return the layers, the first one first."""
        return cast("list[EfimLayer]", list(self.layers))

    def forward(self, ids: Tensor, seen: Tensor | None) -> Tensor:
        """Return the normed stream [rows, length, width] of token ids [rows, length]."""
        stream = self.embed_tokens(ids)
        turns = rotations(ids.shape[1], self.shape.head_dim).to(ids.device)
        values = None if self.token_values is None else self.token_values(ids).chunk(self.shape.layers, dim=-1)
        for index, layer in enumerate(self.blocks()):
            stream = layer(stream, None if values is None else values[index], turns, seen)
        return self.norm(stream)


class EfimLayer(nn.Module):
    """A block of attention and feed-forward part, each of which adds to the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(shape.width)
        self.self_attn = _Attention(shape)
        self.post_attention_layernorm = RmsNorm(shape.width)
        self.mlp = _FeedForward(shape)

    def forward(self, stream: Tensor, values: Tensor | None, turns: Tensor, seen: Tensor | None) -> Tensor:
        """Return the stream after the block; `values` [rows, length, kv_heads * head_dim] are the tokens' own."""
        stream = stream + self.self_attn(self.input_layernorm(stream), values, turns, seen)
        return stream + self.mlp(self.post_attention_layernorm(stream))


class _Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, dim = shape, shape.head_dim
        self.q_proj = nn.Linear(shape.width, shape.heads * dim, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(shape.width, shape.kv_heads * dim, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(shape.heads * dim, shape.width, bias=False)
        self.q_norm, self.k_norm = (RmsNorm(dim) if shape.head_norms else None for _ in range(2))
        self.head_gates = nn.Linear(GATE_INPUTS, shape.heads, bias=False) if shape.head_gates else None

    def forward(self, x: Tensor, values: Tensor | None, turns: Tensor, seen: Tensor | None) -> Tensor:
        own = self.v_proj(x) if values is None else self.v_proj(x) + values
        q, k, v = (
            projected.unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)
            for projected in (self.q_proj(x), self.k_proj(x), own)
        )
        q, k = turned(self._normed(q, self.q_norm), turns), turned(self._normed(k, self.k_norm), turns)
        mixed = scaled_dot_product_attention(q, k, v, seen, is_causal=seen is None, enable_gqa=True).transpose(1, 2)
        if self.head_gates is not None:
            mixed = mixed * (2 * torch.sigmoid(self.head_gates(x[..., :GATE_INPUTS])))[..., None]
        return self.o_proj(mixed.flatten(2))

    def _normed(self, heads: Tensor, norm: RmsNorm | None) -> Tensor:
        return heads if norm is None else norm(heads)


class _FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(shape.width, shape.feed_forward, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(shape.feed_forward, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


def rotations(length: int, head_dim: int) -> Tensor:
    """Return cosines and sines of each position [length, head_dim], each half of a row."""
    frequencies = ROPE_BASE ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    return torch.cat([angles.cos(), angles.sin()], dim=1).float()


def turned(heads: Tensor, turns: Tensor) -> Tensor:
    """Turn the two halves of heads [.., length, dim] as one complex number."""
    (low, high), (cosine, sine) = heads.chunk(2, dim=-1), turns.to(heads.dtype).chunk(2, dim=-1)
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], dim=-1)


def build(shape: Shape) -> EfimForCausalLM:
    """Build a model with random weights; gates and token values begin at zero."""
    network = EfimForCausalLM(shape)
    zero = ("head_gates.weight", "token_values.weight")
    zero += ("o_proj.weight", "down_proj.weight") if shape.zero_outputs else ()
    for name, parameter in network.named_parameters():
        if name.endswith(zero):
            nn.init.zeros_(parameter)
        elif parameter.ndim == 2:
            nn.init.normal_(parameter, std=_SPREAD)
    return network
