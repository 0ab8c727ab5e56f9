"""The transformer of code models (Llama, Qwen, Mistral, StarCoder2, Gemma, Granite), for growing KV caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.layer_spec import GATE_INPUTS, Activation, Full, LayerSpec
from model_runtime.checkpoint.rope import rotations
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import CHUNK, Span
from model_runtime.decoder.attention import attend, bias_of_rows, causal_bias
from model_runtime.decoder.layers import LayerWeights, Norm, Product, fused, head, norm, token_values
from model_runtime.decoder.linear import Linear, linear
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.tensors import as_tensor, norm_tensors
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena


class PackedLayer(NamedTuple):
    """One block with packed weights."""

    spec: LayerSpec
    norm_in: Norm[torch.Tensor]
    qkv: Linear
    head_norms: torch.Tensor | None
    out: Linear
    norm_mlp: Norm[torch.Tensor]
    up: Linear
    down: Linear
    head_gates: torch.Tensor | None


class _RowInputs(NamedTuple):
    """What layers read of a pass's rows besides the stream: rotations, and what is added to values, by layer."""

    rope: torch.Tensor
    token_values: torch.Tensor | None  # [rows, layers, kv_heads, head_dim]


class _SpanPlace(NamedTuple):
    """Where a span is: rows `at` of its pass, `written` and `read` of its arena, whose memory it shares."""

    keys: torch.Tensor
    values: torch.Tensor
    at: slice
    written: slice | torch.Tensor
    read: slice
    bias: torch.Tensor | None

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
        """Write keys and values [new, kv_heads, dim] into the arena and attend q [new, heads, dim] over it."""
        keys, values = self.keys[layer], self.values[layer]
        keys[:, self.written] = k.transpose(0, 1)
        values[:, self.written] = v.transpose(0, 1)
        return attend(q, keys[:, self.read], values[:, self.read], self.bias, scale)


class Decoder:
    """Computes logits of tokens appended to an arena. Used on the engine thread only."""

    chunk = CHUNK
    batch_invariant = True
    top_tokens = None

    def __init__(self, config: ModelConfig, weights: Weights, form: Format) -> None:
        """Prepare the weights; `weights` may be dropped afterwards."""
        self.config = config
        self._embed = as_tensor(weights["model.embed_tokens.weight"])
        self._head = linear(as_tensor(head(config, weights)), None, form)
        self._norm = norm_tensors(norm(config, weights, "model.norm"))
        self._layers = [_packed_layer(spec, fused(config, weights, i), form) for i, spec in enumerate(config.layers)]
        own = token_values(config, weights)
        self._token_values = None if own is None else as_tensor(own)
        self._rope = torch.as_tensor(rotations(config.rope, config.alike.attention.head_dim, config.positions))

    @property
    def rotations(self) -> npt.NDArray[np.complex64]:
        """Factors of the keys in arenas, [positions, head_dim / 2], a view."""
        return self._rope.numpy()

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        return self.forward_spans([Span(ids, arena, rows)])

    @torch.inference_mode()
    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        """Append to several different arenas in one pass; returns the spans' logits [sum of rows, vocab]."""
        places = _places(spans, self.config.alike.attention)
        rope = _joined([self._rope[place.written, None] for place in places])
        ids = torch.as_tensor(np.concatenate([span.ids for span in spans]))
        x = self._embedded(ids)
        inputs = _RowInputs(rope, self._own_values(ids))
        for i, layer in enumerate(self._layers):
            x = x + self._attention(layer, x, inputs, places, i)
            x = x + self._mlp(layer, x)
        for span in spans:
            span.arena.end_pass(span.ids, span.recomputed)
        ends = _joined(
            [x[place.at.stop - span.rows : place.at.stop] for span, place in zip(spans, places, strict=True)]
        )
        return self._head(self._normed(ends, self._norm))

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        x, scale = self._embed[ids].float(), self.config.embedding_scale
        return x if scale == 1 else x * scale

    def _own_values(self, ids: torch.Tensor) -> torch.Tensor | None:
        if self._token_values is None:
            return None
        c = self.config.alike.attention
        return self._token_values[ids].float().view(len(ids), -1, c.kv_heads, c.head_dim)

    def _attention(
        self, layer: PackedLayer, x: torch.Tensor, inputs: _RowInputs, places: list[_SpanPlace], index: int
    ) -> torch.Tensor:
        c, new, y = layer.spec.attention, x.shape[0], self._normed(x, layer.norm_in)
        qkv = layer.qkv(y).view(new, c.heads + 2 * c.kv_heads, c.head_dim)
        turned, v = qkv[:, : c.heads + c.kv_heads], qkv[:, c.heads + c.kv_heads :]
        if layer.head_norms is not None:
            turned = torch.rms_norm(turned, (c.head_dim,), eps=self.config.norm_eps) * layer.head_norms
        if inputs.token_values is not None:
            v = v + inputs.token_values[:, index]
        rotated = _rotate(turned, inputs.rope)
        q, k = rotated[:, : c.heads], rotated[:, c.heads :]
        seen = [place.attend(index, q[place.at], k[place.at], v[place.at], c.head_dim**-0.5) for place in places]
        return layer.out(_opened(_joined(seen), y, layer.head_gates))

    def _mlp(self, layer: PackedLayer, x: torch.Tensor) -> torch.Tensor:
        up, mlp = layer.up(self._normed(x, layer.norm_mlp)), layer.spec.mlp
        if not mlp.gated:
            return layer.down(_activated(up, mlp.activation))
        gate, up = up.chunk(2, dim=-1)
        return layer.down(_activated(gate, mlp.activation).mul_(up))

    def _normed(self, x: torch.Tensor, norm: Norm[torch.Tensor]) -> torch.Tensor:
        if norm.bias is not None:
            return F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, self.config.norm_eps)
        return F.rms_norm(x, norm.weight.shape, norm.weight, self.config.norm_eps)


def _opened(heads: torch.Tensor, y: torch.Tensor, gates: torch.Tensor | None) -> torch.Tensor:
    """Scale heads [new, heads * dim] by gates that read the layer's normed input [new, hidden].

    The sum is one of elements, not a product: that of a matrix depends on how many rows there are.
    """
    if gates is None:
        return heads
    open_ = 2 * torch.sigmoid((y[:, None, :GATE_INPUTS] * gates).sum(-1))
    return (heads.view(len(y), len(gates), -1) * open_[..., None]).view(len(y), -1)


def _activated(x: torch.Tensor, activation: Activation) -> torch.Tensor:
    return F.silu(x) if activation == "silu" else F.gelu(x, approximate="tanh")


def _places(spans: Sequence[Span], attention: Full) -> list[_SpanPlace]:
    places: list[_SpanPlace] = []
    row, groups = 0, attention.heads // attention.kv_heads
    for span in spans:
        arena, new = span.arena, len(span.ids)
        tokens = arena.places_of_pass(new, span.recomputed)
        rows, begins = tokens + arena.excerpt_rows, arena.begins(tokens)
        begin, end = int(np.min(begins)), int(rows[-1]) + 1
        if span.recomputed is None and np.max(begins) == begin:
            written, bias = slice(end - new, end), causal_bias(new, end - begin, groups)
        else:
            written = torch.as_tensor(rows.astype(np.int64))
            bias = bias_of_rows(written - begin, torch.as_tensor(begins) - begin, end - begin, groups)
        keys, values = torch.as_tensor(arena.k), torch.as_tensor(arena.v)
        places.append(_SpanPlace(keys, values, slice(row, row + new), written, slice(begin, end), bias))
        row += new
    return places


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """Concatenate the parts; a single one, the usual case, is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _packed_layer(spec: LayerSpec, parts: LayerWeights, form: Format) -> PackedLayer:
    return PackedLayer(
        spec=spec,
        norm_in=norm_tensors(parts.norm_in),
        qkv=_packed(parts.qkv, form),
        head_norms=None if parts.head_norms is None else as_tensor(parts.head_norms),
        out=_packed(parts.out, form),
        norm_mlp=norm_tensors(parts.norm_mlp),
        up=_packed(parts.up, form),
        down=_packed(parts.down, form),
        head_gates=None if parts.head_gates is None else as_tensor(parts.head_gates),
    )


def _packed(product: Product, form: Format) -> Linear:
    weight, bias = product
    return linear(as_tensor(weight), None if bias is None else as_tensor(bias), form)


def _rotate(heads: torch.Tensor, rope: torch.Tensor) -> torch.Tensor:
    """Rotate heads [n, heads, dim] by rope [n, 1, dim / 2]."""
    pairs = torch.view_as_complex(heads.view(*heads.shape[:2], -1, 2))
    return torch.view_as_real(pairs * rope).flatten(-2)
