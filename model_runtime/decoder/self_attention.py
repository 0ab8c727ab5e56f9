"""The attention of a layer, in torch: over keys and values of each head, or over latents that these are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch.nn import functional as F

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import GATE_INPUTS, LATENT_NORM_EPS, Convolved, Full, Latent, Rope
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.feed_forward import packed
from model_runtime.decoder.linear import Linear
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.recurrence import SpanStates
from model_runtime.decoder.tensors import as_tensor
from model_runtime.decoder.weights.attention import (
    AttentionWeights,
    ConvolvedWeights,
    FullWeights,
    LatentWeights,
    early_keys,
)
from model_runtime.decoder.weights.product import Product
from model_runtime.kv.layout import KvLayout, StatePlace

LEAST_LENGTH = float(np.finfo(np.float32).eps)  # by which convolved queries and keys are divided


def causal_bias(new: int, total: int, groups: int) -> torch.Tensor | None:
    """Return the bias [groups * new, total] that lets new row i see keys 0 .. total - new + i; None if all are seen.

    The query heads that share a key head are laid out as further rows (see `attend`), hence `groups`. Built once
    a forward pass: the mask that torch builds from `causal_lower_right` on CPUs would be rebuilt in every layer.
    """
    if new == 1:
        return None
    seen = torch.ones(new, total, dtype=torch.bool).tril(total - new)
    bias = torch.zeros(new, total).masked_fill_(~seen, float("-inf"))
    return bias.repeat(groups, 1)


def bias_of_rows(rows: torch.Tensor, begins: torch.Tensor, total: int, groups: int) -> torch.Tensor:
    """Return the bias [groups * new, total] that lets each of the rows [new] see keys from its begin to its own."""
    keys = torch.arange(total)
    seen = (keys <= rows[:, None]) & (keys >= begins.reshape(-1, 1))
    return torch.zeros(seen.shape).masked_fill_(~seen, float("-inf")).repeat(groups, 1)


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """Attend q [new, heads, dim] to k, v [kv_heads, total, dim]; returns [new, heads * dim].

    Query heads of one key head become rows of one product, so that keys are read once a group and never repeated.
    """
    new, heads, dim = q.shape
    kv_heads = k.shape[0]
    rows = q.transpose(0, 1).reshape(1, kv_heads, heads // kv_heads * new, dim)
    out = F.scaled_dot_product_attention(rows, k[None], v[None], attn_mask=bias, scale=scale)
    return out.view(heads, new, dim).transpose(0, 1).reshape(new, heads * dim)


def attend_by_row(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    seen: Sequence[tuple[int, int]],
    scale: float,
    cap: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attend each row of q [new, heads, dim] to the keys that it has `seen`; returns [new, heads * dim].

    Scores are capped unless `cap` is 0, and `sinks` [heads] take their shares. One row after the other, each over
    its own keys alone: torch's fused attention knows neither, and a row's bits shall not depend on its company.
    """
    made = list[torch.Tensor]()
    for row, (begin, end) in zip(q, seen, strict=True):
        keys, values = k[:, begin:end], v[:, begin:end]
        scores = row.view(len(k), -1, row.shape[-1]) @ keys.transpose(1, 2) * scale
        if cap:
            scores = cap * torch.tanh(scores / cap)
        if sinks is not None:
            scores = torch.cat((scores, sinks.view(len(k), -1, 1)), -1)
        made.append((scores.softmax(-1)[..., : end - begin] @ values).view(-1))
    return torch.stack(made)


class RowInputs(NamedTuple):
    """The inputs of layers other than the stream: rotations by rope, numbers added to values, and spans' states."""

    ropes: dict[Rope, torch.Tensor]
    token_values: torch.Tensor | None  # [rows, layers, kv_heads, head_dim]
    states: Sequence[SpanStates]


class SpanPlace(NamedTuple):
    """Where a span is in one kind of layers: rows `at` of its pass, `written` and `read` of its arena.

    `planes` share the arena's memory. `seen` are the first and the last key, past the end, of each row, in `read`.
    """

    planes: tuple[torch.Tensor, torch.Tensor]
    at: slice
    written: slice | torch.Tensor
    read: slice
    bias: torch.Tensor | None
    seen: list[tuple[int, int]]

    def stored(self, at: int, new: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Write what a pass has for both planes, each [rows, heads, width], for layer `at` of its kind.

        Returns what the span's rows read of each, [heads, total, width].
        """
        for plane, numbers in zip(self.planes, new, strict=True):
            plane[at][:, self.written] = numbers[self.at].transpose(0, 1)
        return self.held(at)

    def held(self, at: int) -> list[torch.Tensor]:
        """Return what the span's rows read of each plane, [heads, total, width]."""
        return [plane[at][:, self.read] for plane in self.planes]

    def narrowed(self, rows: int, row: int) -> SpanPlace:
        """Return the place of the span's last rows alone, the first of which is `row` of the pass from now on."""
        first, bias = self.at.stop - self.at.start - rows, self.bias
        if bias is not None:
            bias = bias.view(-1, len(self.seen), bias.shape[-1])[:, first:].reshape(-1, bias.shape[-1])
        return self._replace(at=slice(row, row + rows), bias=bias, seen=self.seen[first:])


class AttentionPart(Protocol):
    """What a layer adds to each row before its feed-forward part."""

    def __call__(self, y: torch.Tensor, inputs: RowInputs, places: Sequence[SpanPlace], at: int, /) -> torch.Tensor:
        """Return the output for rows with normed inputs y [rows, hidden]; the layer is `at` of its kind."""
        ...


def attention_part(
    config: ModelConfig, layout: KvLayout, index: int, weights: AttentionWeights, form: Format
) -> AttentionPart:
    """Return the attention that a layer's spec asks for, with packed weights."""
    spec = config.layers[index].attention
    if isinstance(spec, Convolved):
        assert isinstance(weights, ConvolvedWeights)
        return ConvolvedAttention(spec, layout.state_places[index], weights, form)
    if isinstance(spec, Latent):
        assert isinstance(weights, LatentWeights)
        return LatentAttention(spec, weights, form)
    assert isinstance(spec, Full) and isinstance(weights, FullWeights)
    layer = config.layers[index]
    return FullAttention(spec, index, weights, form, config.norm_eps, layer.reads is None and not layer.early)


class FullAttention:
    """Attention over keys and values of each head."""

    def __init__(
        self, spec: Full, index: int, weights: FullWeights, form: Format, norm_eps: float, has_keys: bool
    ) -> None:
        """Pack the weights of the layer that is `index` of all; without own keys it reads another layer's."""
        self._spec, self._index, self._eps, self._has_keys = spec, index, norm_eps, has_keys
        self._qkv, self._out = packed(weights.qkv, form), packed(weights.out, form)
        small = weights.head_norms, weights.head_gates, weights.sinks
        self._norms, self._gates, self._sinks = (None if each is None else as_tensor(each) for each in small)

    def __call__(self, y: torch.Tensor, inputs: RowInputs, places: Sequence[SpanPlace], at: int) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        c, made = self._spec, self._qkv(y)
        keys = c.kv_heads if self._has_keys else 0
        own = (c.heads + 2 * keys) * c.head_dim
        qkv = made[:, :own].reshape(len(y), -1, c.head_dim)
        turned, v = qkv[:, : c.heads + keys], qkv[:, c.heads + keys :]
        if self._norms is not None:
            turned = torch.rms_norm(turned, (c.head_dim,), eps=self._eps) * self._norms
        if c.value_norms and keys:
            v = torch.rms_norm(v, (c.head_dim,), eps=self._eps)
        if inputs.token_values is not None:
            v = v + inputs.token_values[:, self._index]
        rotated = rotate(turned, inputs.ropes[c.rope])
        q, k = rotated[:, : c.heads], rotated[:, c.heads :]
        held = [place.stored(at, (k, v)) if keys else place.held(at) for place in places]
        seen = joined([self._attend(place, q[place.at], *of) for place, of in zip(places, held, strict=True)])
        if c.output_gates:
            seen = seen * torch.sigmoid(made[:, own:])
        return self._out(_opened(seen, y, self._gates))

    def _attend(self, place: SpanPlace, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        c = self._spec
        if c.score_cap or self._sinks is not None:
            return attend_by_row(q, keys, values, place.seen, c.head_dim**-0.5, c.score_cap, self._sinks)
        return attend(q, keys, values, place.bias, c.head_dim**-0.5)


class EarlyKeys:
    """Keys and values of early layers, made of the stream in front of the first of them."""

    def __init__(self, config: ModelConfig, layout: KvLayout, weights: Weights, form: Format) -> None:
        """Pack the weights of the layers that do not read another's."""
        self._spec, self._places = config.full, layout.places
        own = [index for index, each in enumerate(config.layers) if each.early and each.reads is None]
        self._made = {index: packed(early_keys(config, index, weights), form) for index in own}

    def write(self, y: torch.Tensor, inputs: RowInputs, kinds: Sequence[Sequence[SpanPlace]]) -> None:
        """Write keys and values of the rows y [rows, hidden] where the spans are."""
        c = self._spec
        for index, product in self._made.items():
            made, (group, at) = product(y).reshape(len(y), -1, c.head_dim), self._places[index]
            keys = rotate(made[:, : c.kv_heads].contiguous(), inputs.ropes[c.rope])
            for place in kinds[group]:
                place.stored(at, (keys, made[:, c.kv_heads :]))


class LatentAttention:
    """Attention over latents: queries are brought to their space, so that no key or value is ever made of them.

    That is the cheaper way for passes of up to rank * (plain + value) / (2 rank - plain - value) rows, which are 170
    of DeepSeek V2's shape, more than a pass on a CPU has.
    """

    def __init__(self, spec: Latent, weights: LatentWeights, form: Format) -> None:
        """Pack the weights."""
        self._spec = spec
        self._first, self._out = packed(weights.first, form), packed(weights.out, form)
        self._query = None if weights.query is None else packed(weights.query, form)
        self._query_norm = None if weights.query_norm is None else as_tensor(weights.query_norm)
        self._latent_norm = as_tensor(weights.latent_norm)
        self._keys, self._values = (
            [packed(Product(each, None), form) for each in heads] for heads in (weights.keys, weights.values)
        )

    def __call__(self, y: torch.Tensor, inputs: RowInputs, places: Sequence[SpanPlace], at: int) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        c, rope = self._spec, inputs.ropes[self._spec.rope]
        queries, latent, key = torch.split(self._first(y), [c.query_rank or c.heads * c.query, c.rank, c.rotated], 1)
        latent = self._normed(latent, self._latent_norm)[:, None]
        key = rotate(key[:, None].contiguous(), rope)
        if self._query is not None and self._query_norm is not None:
            queries = self._query(self._normed(queries, self._query_norm))
        plain, turned = torch.split(queries.reshape(len(y), c.heads, c.query), [c.plain, c.rotated], 2)
        turned = rotate(turned.contiguous(), rope)
        q = torch.cat((turned, _by_head(self._keys, plain)), 2)
        seen = [self._attend(place, q[place.at], *place.stored(at, (key, latent))) for place in places]
        return self._out(_by_head(self._values, joined(seen)).flatten(1))

    def _attend(self, place: SpanPlace, q: torch.Tensor, keys: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
        """Return what each head finds of latents, [rows, heads, rank]; values are as wide as keys, and then cut."""
        c, both = self._spec, torch.cat((keys, latents), 2)
        found = attend(q, both, both, place.bias, c.query**-0.5)
        return found.view(len(q), c.heads, -1)[..., c.rotated :]

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.rms_norm(x, weight.shape, weight, LATENT_NORM_EPS)


class ConvolvedAttention:
    """Attention with queries and keys convolved over tokens, and half of the values from the previous token."""

    def __init__(self, spec: Convolved, place: StatePlace, weights: ConvolvedWeights, form: Format) -> None:
        """Pack the weights; what the next tokens read is kept at a place of a sequence's states."""
        self._spec, self._place = spec, place
        self._first, self._out = packed(weights.first, form), packed(weights.out, form)
        self._by_channel, self._by_channel_bias = as_tensor(weights.by_channel), as_tensor(weights.by_channel_bias)
        of_heads = zip(weights.by_head, weights.by_head_bias, strict=True)
        self._by_head = [packed(Product(*each), form) for each in of_heads]
        self._delayed_bias = None if weights.delayed_bias is None else as_tensor(weights.delayed_bias)
        self._key_scales = as_tensor(weights.key_scales)[:, None]

    def __call__(self, y: torch.Tensor, inputs: RowInputs, places: Sequence[SpanPlace], at: int) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        c, rows = self._spec, len(y)
        kept, own = torch.split(self._first(y), [c.convolved + c.half_values, c.half_values], 1)
        read = [self._with_those_before(kept[span.at], span) for span in inputs.states]
        windows, delayed = (joined(list(each)) for each in zip(*read, strict=True))
        if self._delayed_bias is not None:
            delayed = delayed + self._delayed_bias
        v = torch.cat((own, delayed), 1).view(rows, c.kv_heads, c.head_dim)
        q, k = self._mixed(kept[:, : c.convolved].view(rows, -1, c.head_dim))
        convolved = _by_head(self._by_head, windows)
        q = _of_length(q + convolved[:, : c.heads])
        k = _of_length(k + convolved[:, c.heads :]) * self._key_scales
        rotated = rotate(torch.cat((q, k), 1), inputs.ropes[c.rope])
        q, k = rotated[:, : c.heads], rotated[:, c.heads :]
        seen = list[torch.Tensor]()
        for place in places:
            keys, values = place.stored(at, (k, v))
            seen.append(attend(q[place.at], keys, values, place.bias, c.head_dim**-0.5))
        return self._out(joined(seen))

    def _with_those_before(self, kept: torch.Tensor, span: SpanStates) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what convolutions of heads read of a span, [tokens, heads, kernel * head_dim], and delayed values.

        `kept` [tokens, channels] is what the next tokens read of these; the last of it goes to the span's states.
        """
        c, tokens = self._spec, len(kept)
        reach = c.lookback.kernel - 1
        row = torch.cat((span.live[self._place.inputs].view(reach, -1), kept))
        for end, states in (*span.kept, (tokens, span.live)):
            states[self._place.inputs] = row[end : end + reach].flatten()
        made = self._by_channel_bias.expand(tokens + c.by_head - 1, -1).clone()
        for tap, weights in enumerate(self._by_channel):  # in one order, whatever the number of tokens is
            made += row[tap : tap + len(made), : c.convolved] * weights
        heads = made.view(len(made), -1, c.head_dim)
        windows = torch.cat([heads[tap : tap + tokens] for tap in range(c.by_head)], 2)
        return windows, row[reach - 1 : reach - 1 + tokens, c.convolved :]

    def _mixed(self, heads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean of each query and its key, and of these means for each key, of heads [rows, all, dim]."""
        c = self._spec
        groups = c.heads // c.kv_heads
        queries = (heads[:, : c.heads] + heads[:, c.heads :].repeat_interleave(groups, 1)) * 0.5
        return queries, queries.view(len(heads), c.kv_heads, groups, c.head_dim).mean(2)


def _of_length(heads: torch.Tensor) -> torch.Tensor:
    """Return heads [rows, heads, dim] at the length of the square root of their size."""
    return heads * (heads.shape[-1] ** 0.5 / heads.square().sum(-1, keepdim=True).sqrt().clamp_min(LEAST_LENGTH))


def _by_head(products: Sequence[Linear], x: torch.Tensor) -> torch.Tensor:
    """Return each head's product with its part of x [rows, heads, inputs], [rows, heads, outputs]."""
    return torch.stack([product(x[:, head].contiguous()) for head, product in enumerate(products)], 1)


def _opened(heads: torch.Tensor, y: torch.Tensor, gates: torch.Tensor | None) -> torch.Tensor:
    """Scale heads [new, heads * dim] by gates that read the layer's normed input [new, hidden].

    The sum is over elements, not a matrix product, whose bits depend on the number of rows.
    """
    if gates is None:
        return heads
    open_ = 2 * torch.sigmoid((y[:, None, :GATE_INPUTS] * gates).sum(-1))
    return (heads.view(len(y), len(gates), -1) * open_[..., None]).view(len(y), -1)


def places_of(spans: Sequence[Span], config: ModelConfig, layout: KvLayout, group: int) -> list[SpanPlace]:
    """Return where spans are in the layers of one kind, the number of which is `group`.

    Layers that slide read from the first row that is kept on, so that blocks of keys begin at the same places
    whatever a pass holds.
    """
    places: list[SpanPlace] = []
    attention = config.layers[layout.planes[2 * group].layers[0]].attention
    assert attention is not None
    heads = 1 if isinstance(attention, Latent) else attention.kv_heads  # of keys, shared by heads of queries
    row, groups = 0, attention.heads // heads
    for span in spans:
        arena, new = span.arena, len(span.ids)
        tokens = arena.places_of_pass(new, span.recomputed)
        if window := attention.window:
            rows, begins = tokens - arena.base, np.maximum(tokens - (window - 1), 0) - arena.base
            begin = 0
        else:
            rows, begins = tokens + arena.excerpt_rows, np.broadcast_to(arena.begins(tokens), tokens.shape)
            begin = int(begins.min())
        end = int(rows[-1]) + 1
        if span.recomputed is None and begins.max() == begin:
            written, bias = slice(end - new, end), causal_bias(new, end - begin, groups)
        else:
            written = torch.as_tensor(rows.astype(np.int64))
            bias = bias_of_rows(written - begin, torch.as_tensor(begins.copy()) - begin, end - begin, groups)
        seen = list(zip((begins - begin).tolist(), (rows - begin + 1).tolist(), strict=True))
        one, two = (torch.as_tensor(arena.planes[2 * group + i]) for i in range(2))
        places.append(SpanPlace((one, two), slice(row, row + new), written, slice(begin, end), bias, seen))
        row += new
    return places


def joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """Concatenate the parts; a single one, the usual case, is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def rotate(heads: torch.Tensor, rope: torch.Tensor) -> torch.Tensor:
    """Rotate heads [n, heads, dim] by rope [n, 1, dim / 2]."""
    pairs = torch.view_as_complex(heads.view(*heads.shape[:2], -1, 2))
    return torch.view_as_real(pairs * rope).flatten(-2)
