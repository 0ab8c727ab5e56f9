"""The networks of code models, in torch: attention over growing KV caches, states, dense parts and experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import LayerSpec
from model_runtime.checkpoint.rope import rotations
from model_runtime.checkpoint.tensor_shapes import EARLY_NORM
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import CHUNK, Rotations, Span, parts_of
from model_runtime.decoder.feed_forward import FeedForward, feed_forward
from model_runtime.decoder.linear import linear
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.recurrence import StatePart, begin_pass, state_part
from model_runtime.decoder.self_attention import (
    AttentionPart,
    EarlyKeys,
    RowInputs,
    SpanPlace,
    attention_part,
    places_of,
)
from model_runtime.decoder.tensors import as_tensor, norm_tensors
from model_runtime.decoder.weights.layer import Norm, fused, head, norm, token_values
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import SLIDING_PASS, KvLayout


class PackedLayer(NamedTuple):
    """One block with packed weights."""

    spec: LayerSpec
    norm_in: Norm[torch.Tensor]
    attention: AttentionPart | None
    state: StatePart | None
    norm_mlp: Norm[torch.Tensor] | None
    mlp: FeedForward | None
    norm_after_attention: Norm[torch.Tensor] | None
    norm_after_mlp: Norm[torch.Tensor] | None


class Company(NamedTuple):
    """What the rows of a pass have in common: what layers read, and spans in each kind of layers."""

    inputs: RowInputs
    kinds: list[list[SpanPlace]]

    def last_rows(self, wanted: Sequence[int]) -> torch.Tensor:
        """Return the numbers of the last `wanted` rows of each span."""
        ends = [place.at.stop for place in (self.kinds[0] if self.kinds else self.inputs.states)]
        return torch.cat([torch.arange(end - count, end) for end, count in zip(ends, wanted, strict=True)])

    def narrowed(self, wanted: Sequence[int]) -> Company:
        """Return the company of the last `wanted` rows of each span alone."""
        rows, starts = self.last_rows(wanted), np.cumsum([0, *wanted]).tolist()
        ropes, own, states = self.inputs
        inputs = RowInputs({r: t[rows] for r, t in ropes.items()}, None if own is None else own[rows], states)
        kinds = [
            [place.narrowed(*each) for place, *each in zip(places, wanted, starts[:-1], strict=True)]
            for places in self.kinds
        ]
        return Company(inputs, kinds)


class Decoder:
    """Computes logits of tokens appended to an arena. Used on the engine thread only."""

    chunk = CHUNK
    batch_invariant = True
    top_tokens = None

    def __init__(self, config: ModelConfig, weights: Weights, form: Format) -> None:
        """Prepare the weights; `weights` may be dropped afterwards."""
        self.config = config
        self._form: Format = form
        self._embed = as_tensor(weights["model.embed_tokens.weight"])
        self._head = linear(as_tensor(head(config, weights)), None, form)
        self._norm = norm_tensors(norm(config, weights, "model.norm"))
        self._layout = KvLayout.of(config)
        self._layers = [self._packed_layer(weights, i) for i in range(len(config.layers))]
        self._early = self._early_norm = None
        if config.first_early is not None:
            self._early = EarlyKeys(config, self._layout, weights, form)
            self._early_norm = norm_tensors(norm(config, weights, EARLY_NORM))
        own = token_values(config, weights)
        self._token_values = None if own is None else as_tensor(own)
        rotated, positions = config.rotated, config.positions
        self._ropes = {rope: torch.as_tensor(rotations(rope, rotated, positions)) for rope in config.ropes}

    @property
    def rotations(self) -> Rotations:
        """Factors of the keys in arenas, [positions, head_dim / 2] for each of the config's ropes, views."""
        return tuple(each.numpy() for each in self._ropes.values())

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        return self.forward_spans([Span(ids, arena, rows)])

    @torch.inference_mode()
    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        """Append to several different arenas in one pass; returns the spans' logits [sum of rows, vocab]."""
        if self._layout.window and any(len(span.ids) > SLIDING_PASS for span in spans):
            parts = [part for span in spans for part in parts_of(span, SLIDING_PASS)]
            return torch.cat([self.forward_spans([part]) for part in parts])
        states = begin_pass(spans)
        kinds = [places_of(spans, self.config, self._layout, group) for group in range(len(self._layout.planes) // 2)]
        positions = np.concatenate([_rows(span) for span in spans])
        ids = torch.as_tensor(np.concatenate([span.ids for span in spans]))
        x = self._embedded(ids)
        ropes = {rope: table[positions, None] for rope, table in self._ropes.items()}
        inputs = RowInputs(ropes, self._own_values(ids), states)
        x = self._through_layers(x, ids, Company(inputs, kinds), [span.rows for span in spans])
        for span in spans:
            span.arena.end_pass(span.ids, span.recomputed)
        return self._capped(self._head(self._normed(x, self._norm)))

    def _packed_layer(self, weights: Weights, index: int) -> PackedLayer:
        config, form = self.config, self._form
        spec, parts = config.layers[index], fused(config, weights, index)
        state = None
        if spec.state is not None and parts.state is not None:
            state = state_part(spec.state, parts.state, self._layout.state_places[index], form, config.norm_eps)
        return PackedLayer(
            spec,
            norm_tensors(parts.norm_in),
            parts.attention and attention_part(config, self._layout, index, parts.attention, form),
            state,
            parts.norm_mlp and norm_tensors(parts.norm_mlp),
            None if spec.mlp is None or parts.mlp is None else feed_forward(spec.mlp, parts.mlp, form),
            parts.norm_after_attention and norm_tensors(parts.norm_after_attention),
            parts.norm_after_mlp and norm_tensors(parts.norm_after_mlp),
        )

    def _through_layers(
        self, x: torch.Tensor, ids: torch.Tensor, company: Company, wanted: Sequence[int]
    ) -> torch.Tensor:
        """Take embedded rows x [rows, hidden] through all layers; return the last `wanted` ones of each span."""
        for index, layer in enumerate(self._layers):
            if index == self.config.first_early:
                x, company = self._leave(x, company, wanted), company.narrowed(wanted)
            before, normed = x, self._normed(x, layer.norm_in)
            if layer.attention is not None:
                x = x + self._attended(index, layer, normed, company)
            if layer.state is not None:
                x = x + layer.state(normed, company.inputs.states)
            if layer.mlp is not None and layer.norm_mlp is not None:
                added = layer.mlp(self._normed(before if layer.spec.parallel else x, layer.norm_mlp))
                x = x + self._after(added, layer.norm_after_mlp)
        return x if self._early is not None else x[company.last_rows(wanted)]

    def _leave(self, x: torch.Tensor, company: Company, wanted: Sequence[int]) -> torch.Tensor:
        """Write keys and values of all early layers; return the rows that go on: nothing reads the others."""
        assert self._early is not None and self._early_norm is not None
        self._early.write(self._normed(x, self._early_norm), company.inputs, company.kinds)
        return x[company.last_rows(wanted)]

    def _attended(self, index: int, layer: PackedLayer, normed: torch.Tensor, company: Company) -> torch.Tensor:
        """Return what the attention of a layer adds to rows."""
        assert layer.attention is not None
        group, at = self._layout.places[index]
        added = layer.attention(normed, company.inputs, company.kinds[group], at)
        return self._after(added, layer.norm_after_attention)

    def _capped(self, logits: torch.Tensor) -> torch.Tensor:
        cap = self.config.logits_cap
        return logits if not cap else logits.div_(cap).tanh_().mul_(cap)

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        x, scale = self._embed[ids].float(), self.config.embedding_scale
        return x if scale == 1 else x * scale

    def _own_values(self, ids: torch.Tensor) -> torch.Tensor | None:
        if self._token_values is None:
            return None
        c = self.config.full
        return self._token_values[ids].float().view(len(ids), -1, c.kv_heads, c.head_dim)

    def _after(self, added: torch.Tensor, norm: Norm[torch.Tensor] | None) -> torch.Tensor:
        """Norm what a part adds, where the model does."""
        return added if norm is None else self._normed(added, norm)

    def _normed(self, x: torch.Tensor, norm: Norm[torch.Tensor]) -> torch.Tensor:
        if norm.bias is not None:
            return F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, self.config.norm_eps)
        return F.rms_norm(x, norm.weight.shape, norm.weight, self.config.norm_eps)


def _rows(span: Span) -> Ids:
    """Return the positions of a span's tokens."""
    return span.arena.places_of_pass(len(span.ids), span.recomputed) + np.int32(span.arena.excerpt_rows)
