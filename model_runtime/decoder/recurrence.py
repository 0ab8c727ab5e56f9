"""The state of a layer, in torch: a convolution over the last tokens, and a memory of all that fades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch.nn import functional as F

from model_runtime.checkpoint.families.layer_spec import Recurrence, ShortConv, State
from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.feed_forward import packed
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.tensors import as_tensor
from model_runtime.decoder.weights.state import StateWeights
from model_runtime.kv.layout import StatePlace

UNIT_EPS = 1e-6  # of the lengths by which queries and keys are divided


class SpanStates(NamedTuple):
    """The states of a span's arena: rows `at` of its pass, the live ones, and those to keep after some of its tokens.

    Tensors [numbers of all layers] share the arena's memory; of `kept`, the first is after how many tokens.
    """

    at: slice
    live: torch.Tensor
    kept: tuple[tuple[int, torch.Tensor], ...]


class StatePart(Protocol):
    """What a layer's state adds to each row."""

    def __call__(self, y: torch.Tensor, spans: Sequence[SpanStates], /) -> torch.Tensor:
        """Take the rows whose normed inputs are y [rows, hidden] into the states; return the part's output."""
        ...


def begin_pass(spans: Sequence[Span]) -> list[SpanStates]:
    """Get the spans' arenas ready for a pass; return their states, none if the model has none."""
    for span in spans:
        span.arena.places_of_pass(len(span.ids), span.recomputed)  # raises IndexError before any of them begins
    found, row = list[SpanStates](), 0
    for span in spans:
        kept = span.arena.begin_pass(len(span.ids), span.rows) if span.recomputed is None else ()
        if span.arena.states is not None:
            states = torch.as_tensor(span.arena.states)
            by_tokens = tuple((each.tokens, states[1 + each.slot]) for each in kept)
            found.append(SpanStates(slice(row, row + len(span.ids)), states[0], by_tokens))
        row += len(span.ids)
    return found


def state_part(spec: State, weights: StateWeights, place: StatePlace, form: Format, norm_eps: float) -> StatePart:
    """Return the state that a layer's spec asks for, with packed weights."""
    if isinstance(spec, ShortConv):
        return ConvPart(spec, weights, place, form)
    assert isinstance(spec, Recurrence)
    return RecurrencePart(spec, weights, place, form, norm_eps)


class Convolution:
    """A convolution of each channel alone, over a token and those before it."""

    def __init__(self, weights: StateWeights, place: StatePlace) -> None:
        """Take over the weights; the last inputs of a sequence are at a place of its states."""
        self._weights, self._place = as_tensor(weights.conv), place
        self._bias = None if weights.conv_bias is None else as_tensor(weights.conv_bias)

    def __call__(self, inputs: torch.Tensor, span: SpanStates) -> torch.Tensor:
        """Return what comes out of a span's inputs [tokens, channels], and keep the last of them."""
        kernel, channels = self._weights.shape
        before = span.live[self._place.inputs].view(kernel - 1, channels)
        row = torch.cat((before, inputs))
        out = torch.zeros_like(inputs) if self._bias is None else self._bias.expand_as(inputs).clone()
        for tap, weights in enumerate(self._weights):  # in one order, whatever the number of tokens is
            out += row[tap : tap + len(inputs)] * weights
        for tokens, states in (*span.kept, (len(inputs), span.live)):
            states[self._place.inputs] = row[tokens : tokens + kernel - 1].flatten()
        return out


class ConvPart:
    """A gated convolution, which keeps its last inputs alone."""

    def __init__(self, spec: ShortConv, weights: StateWeights, place: StatePlace, form: Format) -> None:
        """Pack the weights."""
        self._spec, self._convolved = spec, Convolution(weights, place)
        self._first, self._out = packed(weights.first, form), packed(weights.out, form)

    def __call__(self, y: torch.Tensor, spans: Sequence[SpanStates]) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        inputs, factors, gates = torch.split(self._first(y), self._spec.channels, 1)
        inputs = inputs * factors
        out = torch.cat([self._convolved(inputs[span.at], span) for span in spans])
        return self._out(out * gates)


class RecurrencePart:
    """A memory of all tokens before, which goes on from one token to the next."""

    def __init__(
        self, spec: Recurrence, weights: StateWeights, place: StatePlace, form: Format, norm_eps: float
    ) -> None:
        """Pack the weights."""
        self._spec, self._place, self._eps = spec, place, norm_eps
        self._convolved = Convolution(weights, place)
        self._first, self._out = packed(weights.first, form), packed(weights.out, form)
        small = weights.step_bias, weights.rates, weights.skip, weights.norm
        self._step_bias, self._rates, self._skip, self._norm = (
            None if each is None else as_tensor(each) for each in small
        )

    def __call__(self, y: torch.Tensor, spans: Sequence[SpanStates]) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        c, made = self._spec, self._first(y)
        corrected = c.heads if c.rule == "correct" else 0
        channels, gates, steps, sizes = torch.split(made, [c.channels, c.inner, c.heads, corrected], 1)
        assert self._step_bias is not None and self._rates is not None
        steps = F.softplus(steps + self._step_bias).clamp(c.least_step, c.most_step)
        writes = torch.sigmoid(sizes) if c.rule == "correct" else steps
        decays = torch.exp(steps * self._rates)
        read = [self._of_span(channels[span.at], decays[span.at], writes[span.at], span) for span in spans]
        return self._out(self._gated(torch.cat(read), gates))

    def _of_span(
        self, channels: torch.Tensor, decays: torch.Tensor, writes: torch.Tensor, span: SpanStates
    ) -> torch.Tensor:
        """Return what each of a span's tokens reads of the memory, [tokens, inner]."""
        c, tokens = self._spec, len(channels)
        convolved = F.silu(self._convolved(channels, span))
        values, keys, queries = torch.split(convolved, [c.inner, c.groups * c.key, c.groups * c.key], 1)
        values = values.view(tokens, c.heads, c.value)
        keys, queries = (self._of_heads(each.view(tokens, c.groups, c.key)) for each in (keys, queries))
        if c.rule == "correct":
            queries = queries * c.key**-0.5
        memory = span.live[self._place.memory].view(c.heads, c.key, c.value).clone()
        kept, read = dict(span.kept), torch.empty_like(values)
        for i in range(tokens):
            memory *= decays[i, :, None, None]
            new = values[i]
            if c.rule == "correct":
                new = new - (memory * keys[i, :, :, None]).sum(1)
            memory += keys[i, :, :, None] * (new * writes[i, :, None])[:, None]
            read[i] = (memory * queries[i, :, :, None]).sum(1)
            if i + 1 in kept:
                kept[i + 1][self._place.memory] = memory.flatten()
        span.live[self._place.memory] = memory.flatten()
        return (read if self._skip is None else read + values * self._skip[:, None]).flatten(1)

    def _of_heads(self, rows: torch.Tensor) -> torch.Tensor:
        """Return keys or queries [tokens, groups, key] of each head; by the rule "correct" they have the length 1."""
        if self._spec.rule == "correct":
            rows = rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + UNIT_EPS)
        return rows.repeat_interleave(self._spec.heads // self._spec.groups, 1)

    def _gated(self, read: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
        open_ = F.silu(gates)
        if self._norm is None:
            return read * open_
        if self._spec.gating == "before_norm":
            read = read * open_
        by_group = read.view(len(read), -1, self._spec.normed)
        normed = torch.rms_norm(by_group, (self._spec.normed,), eps=self._eps).view_as(read) * self._norm
        return normed if self._spec.gating == "before_norm" else normed * open_
