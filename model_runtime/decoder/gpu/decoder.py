"""The decoder over a slab: narrow passes are recorded, wide ones are not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.rope import rotations as rotations_of
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import Span, TopTokens
from model_runtime.decoder.gpu.attention import Attend
from model_runtime.decoder.gpu.biases import BiasBlock, bias_of
from model_runtime.decoder.gpu.device import GpuFormat, shares_head
from model_runtime.decoder.gpu.graphs import PassInputs, Record, RecordedPasses
from model_runtime.decoder.gpu.kernels import Kernels, current_device, rotation_factors
from model_runtime.decoder.gpu.layers import WeightUploader
from model_runtime.decoder.gpu.slab import WIDTHS, Slab, SlabArena
from model_runtime.decoder.gpu.top_tokens import TopTokensTable
from model_runtime.decoder.layers import fused, head, norm, token_values
from model_runtime.decoder.tensors import as_tensor
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena


class SlabSpan(NamedTuple):
    """A span's rows `at` of a pass, its arena's first slab row, and its tokens' rows in the arena.

    Each of these attends to those from its own of `begins` on.
    """

    at: slice
    first: int
    rows: Ids
    begins: Ids


class GpuDecoder:
    """Computes on the slab's device in the slab's precision; logits are fp32 and stay there.

    Passes of up to 64 rows are replayed from a recording, those of up to 16 with a list of the likeliest tokens. A
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
        uploader = WeightUploader(slab.k.device, slab.k.dtype, form, kernels.scaled_product)
        self._embed = uploader.table(as_tensor(weights["model.embed_tokens.weight"]))
        self._head = uploader.product(self._embed if shares_head(config) else as_tensor(head(config, weights)))
        self._norm = uploader.norm(norm(config, weights, "model.norm"))
        self._layers = [uploader.layer(config, fused(config, weights, i)) for i in range(len(config.layers))]
        own = token_values(config, weights)
        self._token_values = None if own is None else uploader.table(as_tensor(own))
        head_dim = config.alike.attention.head_dim
        self._cos, self._sin = (
            each.to(slab.k.device)
            for each in rotation_factors(torch.as_tensor(rotations_of(config.rope, head_dim, slab.slot)))
        )
        self._done = torch.cuda.Event() if slab.k.is_cuda else None
        self._listed: tuple[TopTokensTable, list[int]] | None = None  # of the last pass: its table, its spans' rows
        choices = min(tokens or config.vocab, config.vocab)
        with torch.no_grad():
            self._steps = RecordedPasses(
                slab, lambda inputs: self._head.logits(self._hidden(inputs)), record, choices
            )

    @property
    def rotations(self) -> npt.NDArray[np.complex64]:
        """Factors of the keys in arenas, [capacity, head_dim / 2], a copy."""
        return torch.complex(self._cos[:, ::2], self._sin[:, 1::2]).cpu().numpy()

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
        places = _slab_spans(spans)
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
        self._listed, slab = None, self._slab
        rows, firsts, _ = _rows(places)
        blocks = [block for place in places for block in _blocks(place)]
        table = torch.as_tensor(np.stack((ids, rows, firsts + rows))).to(slab.k.device)
        hidden = self._hidden(PassInputs(table[0], table[1], table[2], bias_of(blocks, slab.rows, slab.k.device)))
        return self._head.logits(torch.cat([hidden[end] for end in ends]))

    def _hidden(self, inputs: PassInputs) -> torch.Tensor:
        """Append rows to their arenas; returns the head's inputs [rows, hidden]."""
        c, kernels, attention, mlp = self.config, self._kernels, self.config.alike.attention, self.config.alike.mlp
        turn = self._cos[inputs.positions], self._sin[inputs.positions]
        x = self._embedded(inputs.ids)
        own = self._own_values(inputs.ids)
        y = kernels.apply_norm(x, self._layers[0].norm_in, c.norm_eps, self._embed.dtype)
        following = [*(layer.norm_in for layer in self._layers[1:]), self._norm]
        for i, (layer, after) in enumerate(zip(self._layers, following, strict=True)):
            keys, values = self._slab.k[i], self._slab.v[i]
            qkv, added = layer.qkv(y).view(len(y), -1, attention.head_dim), None if own is None else own[:, i]
            q = kernels.rotate_and_store(qkv, layer.heads, added, turn, inputs.at, keys, values)
            seen = self._attend(q, keys, values, inputs.bias, attention.head_dim**-0.5)
            if layer.head_gates is not None:
                seen = kernels.open_heads(seen, y, layer.head_gates)
            x, y = kernels.add_and_norm(x, layer.out(seen), layer.out_bias, layer.norm_mlp, c.norm_eps)
            up = kernels.activate(layer.up(y), layer.up_bias, mlp.activation, mlp.gated)
            x, y = kernels.add_and_norm(x, layer.down(up), layer.down_bias, after, c.norm_eps)
        return y

    def _own_values(self, ids: torch.Tensor) -> torch.Tensor | None:
        """Return what is added to the values of each token, [rows, layers, kv_heads, head_dim]."""
        if self._token_values is None:
            return None
        c = self.config.alike.attention
        return F.embedding(ids, self._token_values).view(len(ids), -1, c.kv_heads, c.head_dim)

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        x, scale = F.embedding(ids, self._embed).float(), self.config.embedding_scale
        return x if scale == 1 else x * scale


def _slab_spans(spans: Sequence[Span]) -> list[SlabSpan]:
    places, row = list[SlabSpan](), 0
    for span in spans:
        arena = cast(SlabArena, span.arena)
        tokens = arena.places_of_pass(len(span.ids), span.recomputed)
        begins = np.broadcast_to(np.int32(arena.begins(tokens)), tokens.shape)
        places.append(
            SlabSpan(slice(row, row + len(tokens)), arena.first, tokens + np.int32(arena.excerpt_rows), begins)
        )
        row += len(tokens)
    return places


def _rows(places: list[SlabSpan]) -> tuple[Ids, Ids, Ids]:
    """Return the rows of all spans in their arenas, the arenas' first slab rows, and where attention begins."""
    firsts = np.repeat([place.first for place in places], [len(place.rows) for place in places]).astype(np.int32)
    rows, begins = (np.concatenate(each) for each in zip(*((p.rows, p.begins) for p in places), strict=True))
    return rows, firsts, begins


def _blocks(place: SlabSpan) -> list[BiasBlock]:
    """Return a block for each run of rows that follow each other and see keys from the same one on."""
    changes = (np.diff(place.rows) > 1) | (np.diff(place.begins) != 0)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(place.rows)]
    runs = [(int(place.begins[i]), int(place.rows[j - 1]) + 1, j - i) for i, j in pairwise(starts)]
    return [BiasBlock(place.first + begin, end - begin, new) for begin, end, new in runs]
