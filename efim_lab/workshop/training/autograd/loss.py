"""Computes a network's loss on a GPU: the parts of a layer compiled, attention over samples by flash.

A part is compiled once and called for every layer, which takes seconds; a whole network takes more than a minute. The
stream between layers is bf16, weights and their gradients are fp32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from efim_lab.gate.network import (
    EfimForCausalLM,
    EfimLayer,
    Shape,
    rms_norm,
    rotations,
    turned,
)
from efim_lab.workshop.training.objective import seen_by
from efim_lab.workshop.training.samples.masks import sample_starts
from efim_lab.workshop.training.samples.packing import PADDING
from model_runtime.checkpoint.families.layer_spec import GATE_INPUTS

_SAMPLE_BLOCK = 256  # the count of samples is rounded up to it, so that tensors of few sizes are made

# q, k, v [rows, length, heads, head_dim], and the rows' first places; returns the same shape as q
Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class GpuLoss:
    """Computes the mean loss of rows in bf16, for autograd to go back from."""

    def __init__(self, network: EfimForCausalLM, attend: Attend, compiled: bool = True) -> None:
        self._network, self._attend = network, attend
        self._open, self._close, self._loss = attention_inputs, after_attention, mean_loss
        if compiled:
            self._open = torch.compile(attention_inputs, dynamic=False)  # pyright: ignore[reportUnknownMemberType]
            self._close = torch.compile(after_attention, dynamic=False)  # pyright: ignore[reportUnknownMemberType]
            self._loss = torch.compile(mean_loss, dynamic=False)  # pyright: ignore[reportUnknownMemberType]

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the mean cross entropy in nats of token ids [rows, length], without padding."""
        model, shape = self._network.model, self._network.shape
        ids, starts = rows.clamp(min=0), sample_starts(rows)
        turns = rotations(rows.shape[1], shape.head_dim).to(rows.device)[:, None]
        stream = F.embedding(ids, model.embed_tokens.weight).bfloat16()
        values: list[Tensor | None] = [None] * shape.layers
        if model.token_values is not None:
            own = F.embedding(ids, model.token_values.weight).bfloat16()
            values = list(torch.split(own, own.shape[-1] // shape.layers, dim=-1))
        for layer, own in zip(model.blocks(), values, strict=True):
            weights = RoundedLayer.of(layer)
            inputs = self._open(stream, own, turns, weights, shape)
            seen = self._attend(inputs.q, inputs.k, inputs.v, starts)
            stream = self._close(stream, seen, inputs.gates, weights)
        return self._loss(stream, model.norm.weight, model.embed_tokens.weight, rows)


class RoundedLayer(NamedTuple):
    """A layer's weights in bf16, as arguments of compiled functions: queries, keys and values are one matrix."""

    norm_in: Tensor
    qkv: Tensor
    head_norms: tuple[Tensor, Tensor] | None
    gates: Tensor | None
    out: Tensor
    norm_mlp: Tensor
    gate_and_up: Tensor
    down: Tensor

    @classmethod
    def of(cls, layer: EfimLayer) -> RoundedLayer:
        """Round a layer's weights; their gradients reach those in fp32."""
        attention, mlp = layer.self_attn, layer.mlp
        q_norm, k_norm, gates = attention.q_norm, attention.k_norm, attention.head_gates
        qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
        return cls(
            layer.input_layernorm.weight.bfloat16(),
            qkv.bfloat16(),
            None if q_norm is None or k_norm is None else (q_norm.weight.bfloat16(), k_norm.weight.bfloat16()),
            None if gates is None else gates.weight.bfloat16(),
            attention.o_proj.weight.bfloat16(),
            layer.post_attention_layernorm.weight.bfloat16(),
            torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).bfloat16(),
            mlp.down_proj.weight.bfloat16(),
        )


class AttentionInputs(NamedTuple):
    """Queries, and keys and values repeated for each of them [rows, length, heads, head_dim]; the heads' gates."""

    q: Tensor
    k: Tensor
    v: Tensor
    gates: Tensor | None


def attention_inputs(
    stream: Tensor, own: Tensor | None, turns: Tensor, weights: RoundedLayer, shape: Shape
) -> AttentionInputs:
    """Return what a layer attends with; `own` [rows, length, kv_heads * head_dim] is added to values."""
    x = rms_norm(stream, weights.norm_in)
    sizes = [count * shape.head_dim for count in (shape.heads, shape.kv_heads, shape.kv_heads)]
    q, k, v = torch.split(F.linear(x, weights.qkv), sizes, dim=-1)
    v = v if own is None else v + own
    q, k, v = (each.reshape(*each.shape[:2], -1, shape.head_dim) for each in (q, k, v))
    if weights.head_norms is not None:
        q, k = rms_norm(q, weights.head_norms[0]), rms_norm(k, weights.head_norms[1])
    q, k = turned(q, turns), turned(k, turns)
    k, v = (each.repeat_interleave(shape.heads // shape.kv_heads, dim=2) for each in (k, v))
    gates = None
    if weights.gates is not None:
        gates = 2 * torch.sigmoid(F.linear(x[..., :GATE_INPUTS], weights.gates))
    return AttentionInputs(q.contiguous(), k, v, gates)


def after_attention(stream: Tensor, seen: Tensor, gates: Tensor | None, weights: RoundedLayer) -> Tensor:
    """Return the stream after the block; `seen` [rows, length, heads, head_dim] is what attention returned."""
    seen = seen if gates is None else seen * gates[..., None]
    stream = stream + F.linear(seen.flatten(2), weights.out)
    x = rms_norm(stream, weights.norm_mlp)
    gate, up = F.linear(x, weights.gate_and_up).chunk(2, dim=-1)
    return stream + F.linear(F.silu(gate) * up, weights.down)


def mean_loss(stream: Tensor, norm: Tensor, embeddings: Tensor, rows: Tensor) -> Tensor:
    """Return the mean cross entropy in nats of rows [rows, length], without padding."""
    y = rms_norm(stream, norm.bfloat16())[:, :-1].flatten(0, 1)
    logits = F.linear(y, embeddings.bfloat16()).float()
    return F.cross_entropy(logits, rows[:, 1:].flatten(), ignore_index=PADDING)


def attend_samples(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    """Attend by torch's flash attention on a GPU, each sample to itself.

    Not where a sample has isolated excerpts: after those it sees all of itself, so its places are no single range.
    """
    rows, length = starts.shape
    ends = cumulative_lengths(starts)
    q, k, v = (each.flatten(0, 1) for each in (q, k, v))
    # By its operator: the arguments of `varlen_attn` differ between versions of torch.
    out = torch.ops.aten._flash_attention_forward(q, k, v, ends, ends, length, length, 0.0, True, False)[0]
    return out.reshape(rows, length, *q.shape[1:])


def attend_masked(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    """Attend with a mask of what each place sees, on any device."""
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, seen_by(starts)).transpose(1, 2)


def cumulative_lengths(starts: Tensor) -> Tensor:
    """Return where samples begin in the flattened rows, and where the last one ends, int32 (flash's `cu_seqlens`).

    The end is repeated up to a multiple of 256 entries: samples of no length.
    """
    rows, length = starts.shape
    begins = (starts == torch.arange(length, device=starts.device)).flatten().nonzero().flatten()
    padding = -len(begins) % _SAMPLE_BLOCK or _SAMPLE_BLOCK
    return F.pad(begins, (0, padding), value=rows * length).to(torch.int32)
