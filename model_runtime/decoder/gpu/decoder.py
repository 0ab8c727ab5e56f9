"""The decoder over a slab: narrow passes are recorded, wide ones are not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
import torch
from torch.nn import functional as F

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.rope import rotations as rotations_of
from model_runtime.checkpoint.tensor_shapes import HEAD
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import Rotations, Span, TopTokens, parts_of
from model_runtime.decoder.gpu.attention import Attend, BiasBlock, bias_of
from model_runtime.decoder.gpu.device import GpuFormat, shares_head
from model_runtime.decoder.gpu.graphs import PassInputs, Record, RecordedPasses, SlabRows, TopTokensTable
from model_runtime.decoder.gpu.kernels import Kernels, current_device, rotation_factors
from model_runtime.decoder.gpu.layers import WeightUploader
from model_runtime.decoder.gpu.slab import WIDTHS, Slab, SlabArena
from model_runtime.decoder.tensors import as_tensor
from model_runtime.decoder.weights.layer import Norm, fused, head, norm, token_values
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import SLIDING_PASS, KvLayout


class SlabSpan(NamedTuple):
    """A span's rows `at` of a pass, their positions, and where they are in each kind of layers."""

    at: slice
    positions: Ids
    kinds: list[SlabRows]


class GpuDecoder:
    """Computes on the slab's device in the slab's precision; logits are fp32 and stay there.

    Passes of up to 64 rows are replayed from a recording, passes of up to 16 with a list of the likeliest tokens. A
    pass is over when it returns, so that its time is known and a request that stops need not wait. Kernels depend on
    a pass's width, so a row's bits do, too.
    """

    chunk = 1024  # a GPU is not busy with less
    batch_invariant = False

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        slab: Slab,
        attend: Attend,
        kernels: Kernels,
        record: Record,
        form: GpuFormat = "bf16",
        tokens: int | None = None,
    ) -> None:
        """Load the weights onto the device and record the narrow passes; `weights` may be dropped afterwards.

        `tokens` is how many of the vocabulary can be chosen (default: all); a model's may be padded.
        """
        self.config, self._slab, self._attend, self._kernels = config, slab, attend, kernels
        uploader = WeightUploader(slab.k.device, slab.k.dtype, form, kernels)
        self._embed = uploader.table(as_tensor(weights["model.embed_tokens.weight"]))
        shared = shares_head(config) and HEAD not in weights
        self._head = uploader.product(self._embed if shared else as_tensor(head(config, weights)))
        self._norm = uploader.norm(norm(config, weights, "model.norm"))
        layers = enumerate(config.layers)
        self._layers = [uploader.layer(config, spec, fused(config, weights, i)) for i, spec in layers]
        own = token_values(config, weights)
        self._token_values = None if own is None else uploader.table(as_tensor(own))
        head_dim = config.full.head_dim
        tables = {rope: torch.as_tensor(rotations_of(rope, head_dim, slab.slot)) for rope in config.ropes}
        self._turns = {
            rope: [each.to(slab.k.device) for each in rotation_factors(table)] for rope, table in tables.items()
        }
        self._done = torch.cuda.Event() if slab.k.is_cuda else None
        self._listed: tuple[TopTokensTable, list[int]] | None = None  # of the last pass: its table, its spans' rows
        choices = min(tokens or config.vocab, config.vocab)
        with torch.no_grad():
            self._steps = RecordedPasses(slab, lambda inputs: self._logits(self._hidden(inputs)), record, choices)

    @property
    def rotations(self) -> Rotations:
        """Factors of the keys in arenas, [capacity, head_dim / 2] for each of the config's ropes, copies."""
        return tuple(torch.complex(cos[:, ::2], sin[:, 1::2]).cpu().numpy() for cos, sin in self._turns.values())

    @property
    def top_tokens(self) -> list[TopTokens] | None:
        """The likeliest tokens after each row that the last pass returned, or None after one of more than 16 rows."""
        if self._listed is None:
            return None
        table, rows = self._listed
        return [table.read(row) for row in rows]

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        """Append `ids` [n] to an arena of the slab; returns logits [rows, vocab] after each of the last `rows`."""
        return self.forward_spans([Span(ids, arena, rows)])

    @torch.no_grad()
    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        """Append to several different arenas of the slab; returns the spans' logits [sum of rows, vocab]."""
        if self._slab.layout.window and any(len(span.ids) > SLIDING_PASS for span in spans):
            parts = [part for span in spans for part in parts_of(span, SLIDING_PASS)]
            return torch.cat([self.forward_spans([part]) for part in parts])
        places = _slab_spans(spans, self.config, self._slab.layout)
        ids = np.concatenate([span.ids for span in spans])
        ends = [slice(place.at.stop - span.rows, place.at.stop) for place, span in zip(places, spans, strict=True)]
        with current_device(self._slab.k.device):
            logits = self._narrow(ids, places, ends) if len(ids) <= WIDTHS[-1] else self._wide(ids, places, ends)
            if self._done is not None:
                self._done.record()
                self._done.synchronize()
        for span in spans:
            span.arena.end_pass(span.ids, span.recomputed)
        return logits

    def _narrow(self, ids: Ids, places: list[SlabSpan], ends: list[slice]) -> torch.Tensor:
        logits = self._steps.run(ids, *_rows(places))
        table, rows = self._steps.likeliest, [row for end in ends for row in range(end.start, end.stop)]
        self._listed = (table, rows) if table is not None else None
        return torch.cat([logits[end] for end in ends])  # a copy: the next pass overwrites them

    def _wide(self, ids: Ids, places: list[SlabSpan], ends: list[slice]) -> torch.Tensor:
        self._listed, device = None, self._slab.k.device
        positions, kinds = _rows(places)
        table = torch.as_tensor(np.stack((ids, positions, *(rows.at for rows in kinds)))).to(device)
        bias = [
            bias_of([block for place in places for block in _blocks(place.kinds[i])], kind.rows, device)
            for i, kind in enumerate(self._slab.kinds)
        ]
        hidden = self._hidden(PassInputs(table[0], table[1], table[2:].unbind(), bias))
        return self._logits(torch.cat([hidden[end] for end in ends]))

    def _hidden(self, inputs: PassInputs) -> torch.Tensor:
        """Append rows to their arenas; returns the head's inputs [rows, hidden]."""
        c, kernels, attention = self.config, self._kernels, self.config.full
        turns = {rope: (cos[inputs.positions], sin[inputs.positions]) for rope, (cos, sin) in self._turns.items()}
        x = self._embedded(inputs.ids)
        own = self._own_values(inputs.ids)
        y = kernels.apply_norm(x, self._layers[0].norm_in, c.norm_eps, self._embed.dtype)
        following = [*(layer.norm_in for layer in self._layers[1:]), self._norm]
        for i, (layer, after) in enumerate(zip(self._layers, following, strict=True)):
            turn, (kind, at) = turns[c.attentions[i].rope], self._slab.layout.places[i]
            keys, values = (self._slab.planes[2 * kind + part][at] for part in range(2))
            qkv, added = layer.qkv(y).view(len(y), -1, attention.head_dim), None if own is None else own[:, i]
            q = kernels.rotate_and_store(qkv, layer.heads, added, turn, inputs.at[kind], keys, values)
            seen = self._attend(q, keys, values, inputs.bias[kind], attention.head_dim**-0.5)
            if layer.head_gates is not None:
                seen = kernels.open_heads(seen, y, layer.head_gates)
            added = self._normed_after(layer.out(seen), layer.out_bias, layer.norm_after_attention)
            x, following_y = kernels.add_and_norm(x, *added, layer.norm_mlp, c.norm_eps)
            y = y if c.layers[i].parallel else following_y
            added = self._normed_after(layer.mlp(y), layer.mlp.bias, layer.norm_after_mlp)
            x, y = kernels.add_and_norm(x, *added, after, c.norm_eps)
        return y

    def _normed_after(
        self, added: torch.Tensor, bias: torch.Tensor | None, norm: Norm[torch.Tensor] | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return what a part adds, normed where the model does, and the bias that is still to be added to it."""
        if norm is None:
            return added, bias
        whole = added.float() if bias is None else added.float() + bias
        return self._kernels.apply_norm(whole, norm, self.config.norm_eps, added.dtype), None

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        cap, logits = self.config.logits_cap, self._head.logits(hidden)
        return logits if not cap else cap * torch.tanh(logits / cap)

    def _own_values(self, ids: torch.Tensor) -> torch.Tensor | None:
        """Return the numbers added to the values of each token, [rows, layers, kv_heads, head_dim]."""
        if self._token_values is None:
            return None
        c = self.config.full
        return F.embedding(ids, self._token_values).view(len(ids), -1, c.kv_heads, c.head_dim)

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        x, scale = F.embedding(ids, self._embed).float(), self.config.embedding_scale
        return x if scale == 1 else x * scale


def _slab_spans(spans: Sequence[Span], config: ModelConfig, layout: KvLayout) -> list[SlabSpan]:
    places, row = list[SlabSpan](), 0
    attentions = [config.layers[plane.layers[0]].attention for plane in layout.planes[::2]]
    windows = [0 if each is None else each.window for each in attentions]
    for span in spans:
        arena = cast(SlabArena, span.arena)
        tokens = arena.places_of_pass(len(span.ids), span.recomputed)
        if span.recomputed is None:
            arena.begin_pass(len(tokens), span.rows)
        positions, begins = tokens + np.int32(arena.excerpt_rows), np.int32(arena.begins(tokens))
        kinds = list[SlabRows]()
        for first, window in zip(arena.firsts, windows, strict=True):
            seen_from = np.maximum(positions - np.int32(window - 1), 0) if window else begins
            moved = np.int32(first - arena.base * (window > 0))
            seen = np.broadcast_arrays(seen_from + moved, positions + 1 - seen_from)
            kinds.append(SlabRows(positions + moved, *seen))
        places.append(SlabSpan(slice(row, row + len(tokens)), positions, kinds))
        row += len(tokens)
    return places


def _rows(places: list[SlabSpan]) -> tuple[Ids, list[SlabRows]]:
    """Return the positions of all spans' rows, and where these are in each kind of layers."""
    by_kind = zip(*(place.kinds for place in places), strict=True)
    kinds = [SlabRows(*(np.concatenate(each) for each in zip(*kind, strict=True))) for kind in by_kind]
    return np.concatenate([place.positions for place in places]), kinds


def _blocks(rows: SlabRows) -> list[BiasBlock]:
    """Return a block for each run of rows that follow each other and see keys from the same one on."""
    changes = (np.diff(rows.at) > 1) | (np.diff(rows.starts) != 0)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(rows.at)]
    return [BiasBlock(int(rows.starts[i]), int(rows.lengths[j - 1]), j - i) for i, j in pairwise(starts)]
