"""Takes a chunk of rows through a Llama, forward and back, in buffers that every chunk reuses."""

from __future__ import annotations

import torch
from torch import Tensor

from efim_lab.training import network
from efim_lab.training.native.library import addresses, library
from efim_lab.training.native.products import Scratch
from efim_lab.training.native.weights import HEAD_DIM, LlamaWeights, Matrix, Weight
from efim_lab.training.samples.packing import PADDING

LOGIT_ROWS = 512  # tokens whose logits exist at a time: 8 MB, which stay in the cache


class NormRecord:
    """What a norm keeps for its gradient: the stream [tokens, width], and what it made of it."""

    def __init__(self, tokens: int, width: int) -> None:
        self.stream, self.scales = torch.empty(tokens, width), torch.empty(tokens)
        self.normed = _halves(tokens, width)


class LayerRecord:
    """What a layer keeps of a chunk for its gradients."""

    def __init__(self, tokens: int, shape: network.Shape) -> None:
        heads, kv_heads = shape.heads, shape.kv_heads
        self.norm_in, self.norm_mlp = (NormRecord(tokens, shape.width) for _ in range(2))
        self.qkv, self.mixed = _halves(tokens, (heads + 2 * kv_heads) * HEAD_DIM), _halves(tokens, heads * HEAD_DIM)
        self.log_sums = torch.empty(tokens, heads)
        self.gate_up, self.gated = (
            _halves(tokens, 2 * shape.feed_forward),
            _halves(tokens, shape.feed_forward),
        )


class ChunkPass:
    """Forward and backward passes of one thread over chunks of at most `tokens` tokens.

    `totals` are the sums of gradients in fp32, for each weight of the shape of its values.
    """

    def __init__(self, weights: LlamaWeights, shape: network.Shape, tokens: int) -> None:
        self.totals = {weight: torch.zeros_like(weight.values) for weight in weights}
        self._weights, self._shape = weights, shape
        self._width, self._heads = shape.width, (shape.heads, shape.kv_heads)
        self._records = [LayerRecord(tokens, shape) for _ in weights.layers]
        self._last = NormRecord(tokens, self._width)
        self._embedded = torch.empty(tokens, self._width)
        self._added, self._d_normed, self._d_half = (_halves(tokens, self._width) for _ in range(3))
        self._d_stream = torch.empty(tokens, self._width)
        self._d_mixed, self._d_qkv = torch.empty_like(self._records[0].mixed), torch.empty_like(self._records[0].qkv)
        self._d_gated = torch.empty_like(self._records[0].gated)
        layer = weights.layers[0]
        matrices = [matrix.values for matrix in (layer.qkv, layer.out, layer.gate_up, layer.down)]
        self._scratch = Scratch(tokens, max(max(each.shape) for each in matrices))
        logit_rows = min(tokens, LOGIT_ROWS)
        self._logits = _halves(logit_rows, shape.vocabulary)
        self._logit_scratch = Scratch(logit_rows, shape.vocabulary)
        self._attention_scratch = torch.empty(library().train_attention_scratch(tokens), dtype=torch.uint8)
        self._turns = _turns(tokens)

    def run(self, rows: Tensor, starts: Tensor, scale: float) -> float:
        """Add the gradients of the loss times `scale` to the totals; return the sum of the loss over tokens, in nats.

        `rows` [rows, length] holds token ids, `starts` [rows, length] the first place that each place may see.
        """
        ids = rows.clamp(min=0).to(torch.int32)
        targets = torch.full_like(ids, PADDING)
        targets[:, :-1] = rows[:, 1:]
        length = rows.shape[1]
        self._forward(ids, starts, length)
        loss = self._predict(targets.flatten(), scale)
        self._backward(ids, starts, length)
        return loss

    def _forward(self, ids: Tensor, starts: Tensor, length: int) -> None:
        tokens, lib, scratch = ids.numel(), library(), self._scratch
        lib.train_embed(tokens, self._width, *addresses(ids, self._weights.table.values, self._embedded))
        stream, added = self._embedded, None
        for layer, record in zip(self._weights.layers, self._records, strict=True):
            self._normalize(tokens, stream, added, layer.norm_in, record.norm_in)
            layer.qkv.products.forward.multiply(tokens, record.norm_in.normed, record.qkv, scratch)
            self._rotate(tokens, length, 1.0, record.qkv)
            attended = addresses(starts, record.qkv, record.mixed, record.log_sums, self._attention_scratch)
            lib.train_attend(tokens // length, length, *self._heads, *attended)
            added = self._added
            layer.out.products.forward.multiply(tokens, record.mixed, added, scratch)
            self._normalize(tokens, record.norm_in.stream, added, layer.norm_mlp, record.norm_mlp)
            layer.gate_up.products.forward.multiply(tokens, record.norm_mlp.normed, record.gate_up, scratch)
            lib.train_gate(tokens, self._shape.feed_forward, *addresses(record.gate_up, record.gated))
            layer.down.products.forward.multiply(tokens, record.gated, added, scratch)
            stream = record.norm_mlp.stream
        self._normalize(tokens, stream, added, self._weights.norm, self._last)

    def _predict(self, targets: Tensor, scale: float) -> float:
        """Compute the loss, and the gradient of the last norm's output, some tokens at a time."""
        table, scratch, losses = self._weights.table, self._logit_scratch, 0.0
        products, total = table.products, self.totals[table]
        for at in range(0, len(targets), LOGIT_ROWS):
            some, normed = targets[at : at + LOGIT_ROWS], self._last.normed[at:]
            products.forward.multiply(len(some), normed, self._logits, scratch)
            sizes = len(some), self._shape.vocabulary
            losses += library().train_cross_entropy(*sizes, some.data_ptr(), scale, self._logits.data_ptr())
            products.backward.multiply(len(some), self._logits, self._d_normed[at:], scratch)
            products.add_gradient(len(some), self._logits, normed, total, scratch)
        return losses

    def _backward(self, ids: Tensor, starts: Tensor, length: int) -> None:
        tokens, lib, scratch = ids.numel(), library(), self._scratch
        self._d_stream[:tokens].zero_()
        self._normalize_back(tokens, self._weights.norm, self._last)
        steps = zip(self._weights.layers, self._records, strict=True)
        for layer, record in reversed(list(steps)):
            layer.down.products.backward.multiply(tokens, self._d_half, self._d_gated, scratch)
            self._add_gradient(tokens, layer.down, self._d_half, record.gated)
            lib.train_gate_back(tokens, self._shape.feed_forward, *addresses(self._d_gated, record.gate_up))
            layer.gate_up.products.backward.multiply(tokens, record.gate_up, self._d_normed, scratch)
            self._add_gradient(tokens, layer.gate_up, record.gate_up, record.norm_mlp.normed)
            self._normalize_back(tokens, layer.norm_mlp, record.norm_mlp)
            layer.out.products.backward.multiply(tokens, self._d_half, self._d_mixed, scratch)
            self._add_gradient(tokens, layer.out, self._d_half, record.mixed)
            forward = starts, record.qkv, record.mixed, self._d_mixed, record.log_sums
            attended = addresses(*forward, self._d_qkv, self._attention_scratch)
            lib.train_attend_back(tokens // length, length, *self._heads, *attended)
            self._rotate(tokens, length, -1.0, self._d_qkv)
            layer.qkv.products.backward.multiply(tokens, self._d_qkv, self._d_normed, scratch)
            self._add_gradient(tokens, layer.qkv, self._d_qkv, record.norm_in.normed)
            self._normalize_back(tokens, layer.norm_in, record.norm_in)
        lib.train_embed_back(tokens, self._width, *addresses(ids, self._d_stream, self.totals[self._weights.table]))

    def _add_gradient(self, tokens: int, matrix: Matrix, d: Tensor, x: Tensor) -> None:
        matrix.products.add_gradient(tokens, d, x, self.totals[matrix], self._scratch)

    def _normalize(self, tokens: int, stream: Tensor, added: Tensor | None, weight: Weight, to: NormRecord) -> None:
        left = stream.data_ptr(), added.data_ptr() if added is not None else None, weight.values.data_ptr()
        right = addresses(to.stream, to.normed, to.scales)
        library().train_add_norm(tokens, self._width, *left, network.NORM_EPSILON, *right)

    def _normalize_back(self, tokens: int, weight: Weight, record: NormRecord) -> None:
        """Add the gradient of the norm's input to that of the stream, and give its form for products."""
        forward = self._d_normed, record.stream, record.scales, weight.values
        back = self._d_stream, self._d_half, self.totals[weight]
        library().train_norm_back(tokens, self._width, *addresses(*forward, *back))

    def _rotate(self, tokens: int, length: int, sign: float, qkv: Tensor) -> None:
        """Turn queries and keys by their positions, or their gradients back, in place."""
        turns, heads = self._turns.data_ptr(), sum(self._heads)
        library().train_rotate(tokens, qkv.shape[1], heads, length, turns, sign, qkv.data_ptr())


def _halves(rows: int, columns: int) -> Tensor:
    return torch.empty(rows, columns, dtype=torch.bfloat16)


def _turns(length: int) -> Tensor:
    """Return cosines and sines of each position [length, head_dim]."""
    frequencies = network.ROPE_BASE ** (-torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    return torch.cat([angles.cos(), angles.sin()], dim=1).float()
