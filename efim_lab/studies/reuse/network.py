"""A forward pass that can be looked into: what each layer attended to, and context of which only a part is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import GATE_INPUTS
from model_runtime.checkpoint.rope import rotations
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.tensors import as_tensor, norm_tensors
from model_runtime.decoder.weights.attention import FullWeights
from model_runtime.decoder.weights.feed_forward import DenseWeights
from model_runtime.decoder.weights.layer import LayerWeights, Norm, fused, head, norm, token_values
from model_runtime.decoder.weights.product import Product
from model_runtime.ids import Ids

Seen = Callable[[int, torch.Tensor], torch.Tensor]  # layer, queries [new, heads, dim] -> bool [first keys]


class LayerKv(NamedTuple):
    """Keys, rotated, and values of one layer, both [kv_heads, tokens, head_dim]."""

    k: torch.Tensor
    v: torch.Tensor


class LayerTrace(NamedTuple):
    """What a pass left in a layer: `queries` [rows, heads, head_dim] are rotated, `hidden` [rows, hidden] came in."""

    kv: LayerKv
    queries: torch.Tensor
    hidden: torch.Tensor


class Network:
    """The same transformer as the decoders, in fp32 and one row at a time visible; slower, and of no fixed bits."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        """Take the weights of a checkpoint."""
        self.config = config
        self._embed = as_tensor(weights["model.embed_tokens.weight"]).float()
        self._head = as_tensor(head(config, weights)).float()
        self._norm = norm_tensors(norm(config, weights, "model.norm"))
        self._layers = [fused(config, weights, index) for index in range(len(config.layers))]
        own = token_values(config, weights)
        self._token_values = None if own is None else as_tensor(own).float()
        self._rope = torch.as_tensor(rotations(config.full.rope, config.full.head_dim, config.context))

    @torch.inference_mode()
    def run(
        self,
        ids: Ids,
        past: Sequence[LayerKv] = (),
        seen: Seen | None = None,
        start: int | None = None,
        narrowed: Narrowing | None = None,
    ) -> tuple[torch.Tensor, list[LayerTrace]]:
        """Compute tokens after the `past`, at places from `start` on (by default, those that follow the past).

        `seen` says which of the first keys of the past a layer may see; it sees all after those. Of the rows, only
        some go on where `narrowed` says so. Returns what comes out of the last layer [rows, hidden], normed, and a
        trace of each layer.
        """
        begin = (past[0].k.shape[1] if past else 0) if start is None else start
        places = torch.arange(begin, begin + len(ids))
        tokens, traces = torch.as_tensor(ids), list[LayerTrace]()
        x = self._embed[tokens] * self.config.embedding_scale
        for index, layer in enumerate(self._layers):
            kv = past[index] if past else None
            out, trace = self._attention(index, layer, x, tokens, places, kv, seen)
            x = x + out
            x = x + self._mlp(layer, x)
            traces.append(trace)
            if narrowed is not None and index == narrowed.layer:
                kept = narrowed.choose(trace.queries, trace.kv.k)
                x, places, tokens = x[kept], places[kept], tokens[kept]
        return _normed(x, self._norm, self.config.norm_eps), traces

    @torch.inference_mode()
    def run_layers(self, hidden: torch.Tensor, ids: Ids, layers: range) -> list[LayerKv]:
        """Compute some layers of a sequence from its start; the first of them reads `hidden` [tokens, hidden]."""
        places, tokens, made = torch.arange(len(ids)), torch.as_tensor(ids), list[LayerKv]()
        for index in layers:
            layer = self._layers[index]
            out, trace = self._attention(index, layer, hidden, tokens, places, None, None)
            hidden = hidden + out
            hidden = hidden + self._mlp(layer, hidden)
            made.append(trace.kv)
        return made

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [rows, vocab] of what `run` returned."""
        return hidden @ self._head.T

    def _attention(
        self,
        index: int,
        layer: LayerWeights,
        x: torch.Tensor,
        tokens: torch.Tensor,
        places: torch.Tensor,
        past: LayerKv | None,
        seen: Seen | None,
    ) -> tuple[torch.Tensor, LayerTrace]:
        c, epsilon, new, weights = self.config.full, self.config.norm_eps, len(x), layer.attention
        assert isinstance(weights, FullWeights)
        y = _normed(x, norm_tensors(layer.norm_in), epsilon)
        qkv = _product(y, weights.qkv).view(new, c.heads + 2 * c.kv_heads, c.head_dim)
        turned, v = qkv[:, : c.heads + c.kv_heads], qkv[:, c.heads + c.kv_heads :].transpose(0, 1)
        if weights.head_norms is not None:
            turned = torch.rms_norm(turned, (c.head_dim,), eps=epsilon) * as_tensor(weights.head_norms)
        if self._token_values is not None:
            own = self._token_values[tokens].view(new, -1, c.kv_heads, c.head_dim)[:, index]
            v = v + own.transpose(0, 1)
        turned = rotated(turned, self._rope[places, None])
        q, k = turned[:, : c.heads], turned[:, c.heads :].transpose(0, 1)
        keys, values = (k, v) if past is None else (torch.cat((past.k, k), 1), torch.cat((past.v, v), 1))
        visible = causal(new, keys.shape[1])
        if past is not None and seen is not None:
            mask = seen(index, q)
            visible[:, : len(mask)] &= mask
        shared = (each.repeat_interleave(c.heads // c.kv_heads, 0) for each in (keys, values))
        mixed = F.scaled_dot_product_attention(q.transpose(0, 1), *shared, attn_mask=visible)
        heads = mixed.transpose(0, 1)
        if weights.head_gates is not None:
            heads = heads * (2 * torch.sigmoid(y[:, :GATE_INPUTS] @ as_tensor(weights.head_gates).T))[..., None]
        return _product(heads.reshape(new, -1), weights.out), LayerTrace(LayerKv(k, v), q, x)

    def _mlp(self, layer: LayerWeights, x: torch.Tensor) -> torch.Tensor:
        assert isinstance(layer.mlp, DenseWeights)
        assert layer.norm_mlp is not None
        up = _product(_normed(x, norm_tensors(layer.norm_mlp), self.config.norm_eps), layer.mlp.up)
        if not self.config.dense.gated:
            return _product(self._activated(up), layer.mlp.down)
        gate, up = up.chunk(2, dim=-1)
        return _product(self._activated(gate) * up, layer.mlp.down)

    def _activated(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x) if self.config.dense.activation == "silu" else F.gelu(x, approximate="tanh")


class Narrowing(NamedTuple):
    """After `layer`, only the rows that `choose` returns (of queries and keys) go on to the layers above."""

    layer: int
    choose: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def attention(q: torch.Tensor, keys: torch.Tensor, visible: torch.Tensor | None = None) -> torch.Tensor:
    """Return the attention [heads, rows, keys] of q [rows, heads, dim] to the visible keys [kv_heads, keys, dim]."""
    _, heads, dim = q.shape
    shared = keys.repeat_interleave(heads // keys.shape[0], 0)
    scores = q.transpose(0, 1) @ shared.transpose(1, 2) * dim**-0.5
    return (scores if visible is None else scores.masked_fill(~visible, float("-inf"))).softmax(-1)


def causal(rows: int, keys: int) -> torch.Tensor:
    """Return which keys each of the last rows may see, bool [rows, keys]."""
    return torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)


def rotated(heads: torch.Tensor, rope: torch.Tensor) -> torch.Tensor:
    """Rotate heads [.., dim] by complex rope [.., dim / 2]."""
    pairs = torch.view_as_complex(heads.contiguous().view(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rope).flatten(-2)


def _product(x: torch.Tensor, product: Product) -> torch.Tensor:
    weight, bias = product
    return F.linear(x, as_tensor(weight), None if bias is None else as_tensor(bias))


def _normed(x: torch.Tensor, norm: Norm[torch.Tensor], epsilon: float) -> torch.Tensor:
    if norm.bias is not None:
        return F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, epsilon)
    return F.rms_norm(x, norm.weight.shape, norm.weight, epsilon)
