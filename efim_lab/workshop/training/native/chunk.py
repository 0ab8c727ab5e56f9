"""Takes a chunk of rows through a network, forward and back, in buffers that every chunk reuses."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import torch
from torch import Tensor

from efim_lab.gate import network
from efim_lab.workshop.training.native.library import Heads, addresses, library
from efim_lab.workshop.training.native.products import Scratch
from efim_lab.workshop.training.native.weights import LayerWeights, Matrix, NetworkWeights, Weight
from efim_lab.workshop.training.samples.packing import PADDING

HEAD_DIM = 64  # what the kernels are written for
LOGIT_ROWS = 512  # tokens whose logits exist at a time: 8 MB, which stay in the cache


class NormRecord:
    """What a norm keeps for its gradient: the stream [tokens, width], its scales and its output."""

    def __init__(self, tokens: int, width: int) -> None:
        self.stream, self.scales = torch.empty(tokens, width), torch.empty(tokens)
        self.normed = _halves(tokens, width)


class LayerRecord:
    """What a layer keeps of a chunk for its gradients."""

    def __init__(self, tokens: int, shape: network.Shape) -> None:
        heads, kv_heads = shape.heads, shape.kv_heads
        self.norm_in, self.norm_mlp = (NormRecord(tokens, shape.width) for _ in range(2))
        self.raw, self.qkv = (_halves(tokens, (heads + 2 * kv_heads) * HEAD_DIM) for _ in range(2))
        self.head_scales = torch.empty(tokens, heads + kv_heads)
        self.mixed, self.log_sums = _halves(tokens, heads * HEAD_DIM), torch.empty(tokens, heads)
        self.opened = _halves(tokens, heads * HEAD_DIM) if shape.head_gates else self.mixed
        self.gate_up, self.gated = (
            _halves(tokens, 2 * shape.feed_forward),
            _halves(tokens, shape.feed_forward),
        )


class ChunkPass:
    """Forward and backward passes of one thread over chunks of at most `tokens` tokens.

    `totals` are the sums of gradients in fp32, for each weight of the shape of its values.
    """

    def __init__(self, weights: NetworkWeights, shape: network.Shape, tokens: int) -> None:
        self.totals = {weight: torch.zeros_like(weight.values) for weight in weights}
        self._weights, self._shape = weights, shape
        self._width, self._heads = shape.width, (shape.heads, shape.kv_heads)
        self._records = [LayerRecord(tokens, shape) for _ in weights.layers]
        self._last = NormRecord(tokens, self._width)
        self._embedded = torch.empty(tokens, self._width)
        self._added, self._d_normed, self._d_half = (_halves(tokens, self._width) for _ in range(3))
        self._d_stream, self._d_gates = torch.empty(tokens, self._width), torch.empty(tokens, shape.heads)
        self._d_mixed, self._d_qkv = torch.empty_like(self._records[0].mixed), torch.empty_like(self._records[0].qkv)
        self._d_gated = torch.empty_like(self._records[0].gated)
        layer = weights.layers[0]
        matrices = [matrix.values for matrix in (layer.qkv, layer.out, layer.gate_up, layer.down)]
        self._scratch = Scratch(tokens, max(max(each.shape) for each in matrices))
        logit_rows = min(tokens, LOGIT_ROWS)
        self._logits = _halves(logit_rows, shape.vocabulary)
        self._logit_scratch = Scratch(logit_rows, shape.vocabulary)
        self._attention_scratch = torch.empty(library().train_attention_scratch(tokens), dtype=torch.uint8)
        self._turns = network.rotations(tokens, HEAD_DIM)

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
        for index, (layer, record) in enumerate(zip(self._weights.layers, self._records, strict=True)):
            self._normalize(tokens, stream, added, layer.norm_in, record.norm_in)
            layer.qkv.products.forward.multiply(tokens, record.norm_in.normed, record.raw, scratch)
            heads = self._heads_of(index, ids, length)
            lib.train_place(ctypes.byref(heads), *addresses(record.raw, record.qkv, record.head_scales))
            attended = addresses(starts, record.qkv, record.mixed, record.log_sums, self._attention_scratch)
            lib.train_attend(tokens // length, length, *self._heads, *attended)
            if layer.head_gates is not None:
                gated = record.norm_in.normed, layer.head_gates.values, record.mixed, record.opened
                lib.train_open(tokens, self._width, self._shape.heads, *addresses(*gated))
            added = self._added
            layer.out.products.forward.multiply(tokens, record.opened, added, scratch)
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
        tokens = ids.numel()
        self._d_stream[:tokens].zero_()
        self._normalize_back(tokens, self._weights.norm, self._last)
        for index in reversed(range(len(self._records))):
            layer, record = self._weights.layers[index], self._records[index]
            self._feed_forward_back(tokens, layer, record)
            self._attention_back(ids, starts, length, index)
        back = addresses(ids, self._d_stream, self.totals[self._weights.table])
        library().train_embed_back(tokens, self._width, *back)

    def _feed_forward_back(self, tokens: int, layer: LayerWeights, record: LayerRecord) -> None:
        scratch, width = self._scratch, self._shape.feed_forward
        layer.down.products.backward.multiply(tokens, self._d_half, self._d_gated, scratch)
        self._add_gradient(tokens, layer.down, self._d_half, record.gated)
        library().train_gate_back(tokens, width, *addresses(self._d_gated, record.gate_up))
        layer.gate_up.products.backward.multiply(tokens, record.gate_up, self._d_normed, scratch)
        self._add_gradient(tokens, layer.gate_up, record.gate_up, record.norm_mlp.normed)
        self._normalize_back(tokens, layer.norm_mlp, record.norm_mlp)

    def _attention_back(self, ids: Tensor, starts: Tensor, length: int, index: int) -> None:
        layer, record, tokens = self._weights.layers[index], self._records[index], ids.numel()
        lib, scratch, gates = library(), self._scratch, layer.head_gates
        layer.out.products.backward.multiply(tokens, self._d_half, self._d_mixed, scratch)
        self._add_gradient(tokens, layer.out, self._d_half, record.opened)
        sizes = tokens, self._width, self._shape.heads
        if gates is not None:
            gated = record.norm_in.normed, gates.values, record.mixed
            lib.train_open_back(*sizes, *addresses(*gated, self._d_mixed, self.totals[gates], self._d_gates))
        forward = starts, record.qkv, record.mixed, self._d_mixed, record.log_sums
        attended = addresses(*forward, self._d_qkv, self._attention_scratch)
        lib.train_attend_back(tokens // length, length, *self._heads, *attended)
        heads = ctypes.byref(self._heads_of(index, ids, length))
        totals = (None if part is None else self.totals[part] for part in (layer.q_norm, layer.k_norm))
        back = addresses(record.raw, record.head_scales, self._d_qkv)
        lib.train_place_back(heads, *back, *map(_start, totals), self._values_of(index, self.totals))
        layer.qkv.products.backward.multiply(tokens, self._d_qkv, self._d_normed, scratch)
        self._add_gradient(tokens, layer.qkv, self._d_qkv, record.norm_in.normed)
        if gates is not None:
            lib.train_open_inputs_back(*sizes, *addresses(gates.values, self._d_gates, self._d_normed))
        self._normalize_back(tokens, layer.norm_in, record.norm_in)

    def _add_gradient(self, tokens: int, matrix: Matrix, d: Tensor, x: Tensor) -> None:
        matrix.products.add_gradient(tokens, d, x, self.totals[matrix], self._scratch)

    def _normalize(self, tokens: int, stream: Tensor, added: Tensor | None, weight: Weight, to: NormRecord) -> None:
        left, right = (stream.data_ptr(), _start(added), weight.values.data_ptr()), (to.stream, to.normed, to.scales)
        library().train_add_norm(tokens, self._width, *left, network.NORM_EPSILON, *addresses(*right))

    def _normalize_back(self, tokens: int, weight: Weight, record: NormRecord) -> None:
        """Add the gradient of the norm's input to the stream's gradient, and give its form for products."""
        forward = self._d_normed, record.stream, record.scales, weight.values
        back = self._d_stream, self._d_half, self.totals[weight]
        library().train_norm_back(tokens, self._width, *addresses(*forward, *back))

    def _heads_of(self, index: int, ids: Tensor, length: int) -> Heads:
        layer, values = self._weights.layers[index], self._weights.token_values
        norms = (_start(None if part is None else part.values) for part in (layer.q_norm, layer.k_norm))
        stride = 0 if values is None else values.values.shape[1]
        table = None if values is None else self._values_of(index, {values: values.values})
        left = ids.numel(), *self._heads, length, stride, self._turns.data_ptr(), ids.data_ptr()
        return Heads(*left, *norms, table, network.NORM_EPSILON)

    def _values_of(self, index: int, tables: Mapping[Weight, Tensor]) -> int | None:
        """Return where a layer's own part of the table of values begins, or of the table of their gradients."""
        weight = self._weights.token_values
        return None if weight is None else tables[weight][:, index * self._heads[1] * HEAD_DIM :].data_ptr()


def _start(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _halves(rows: int, columns: int) -> Tensor:
    return torch.empty(rows, columns, dtype=torch.bfloat16)
