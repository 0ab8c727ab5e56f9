"""The weights of a Llama as its native passes read them: packed for their products once a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from efim_lab.training.native.library import addresses, library

HEAD_DIM = 64
PANEL = 32  # columns of a panel


class Scratch:
    """Room for the packed forms of a product's operands, `rows` by at most `widest`; each product overwrites it."""

    def __init__(self, rows: int, widest: int) -> None:
        self.bytes = torch.empty(rows * widest, dtype=torch.uint8)
        self.scales = torch.empty(rows)
        self.left, self.right = (torch.empty(rows * widest, dtype=torch.bfloat16) for _ in range(2))


class PackedOperand:
    """The right operand [depth, columns] of a product, in panels of int8."""

    def __init__(self, depth: int, columns: int) -> None:
        self.depth, self.columns = depth, columns
        self.panels = torch.empty(depth * columns, dtype=torch.int8)
        self.scales = torch.empty(columns)
        self.shifts = torch.empty(columns, dtype=torch.int32)

    def multiply(self, rows: int, left: Tensor, out: Tensor, scratch: Scratch) -> None:
        """Write left [rows, depth] times this operand to `out` [rows, columns]; both are bf16."""
        a = scratch.bytes, scratch.scales
        library().train_quantize(rows, self.depth, *addresses(left, *a))
        operands = addresses(*a, self.panels, self.scales, self.shifts, out)
        library().train_multiply_int8(rows, self.columns, self.depth, *operands)


class PackedHalves:
    """The right operand [depth, columns] of a product, in panels of bf16."""

    def __init__(self, depth: int, columns: int) -> None:
        self.depth, self.columns = depth, columns
        self.panels = torch.empty(depth * columns, dtype=torch.bfloat16)

    def multiply(self, rows: int, left: Tensor, out: Tensor) -> None:
        """Write left [rows, depth] times this operand to `out` [rows, columns]; both are bf16."""
        library().train_multiply(rows, self.columns, self.depth, *addresses(left, self.panels, out))


class Weight:
    """Parameters that a pass reads as one, `values`, in which they follow each other in the first dimension."""

    def __init__(self, part: Tensor, *others: Tensor) -> None:
        self._parts = (part, *others)
        self.values = torch.cat([each.detach() for each in self._parts]) if others else part.detach()

    def pack(self) -> None:
        """Take over the parameters' present values."""
        if len(self._parts) > 1:
            torch.cat([part.detach() for part in self._parts], out=self.values)

    def set_gradient(self, total: Tensor) -> None:
        """Make the parts of a gradient of the shape of `values` the parameters' gradients."""
        at = 0
        for part in self._parts:
            part.grad = total[at : at + len(part)]
            at += len(part)


class Matrix(Weight):
    """The weights [outputs, inputs] of one product.

    Forward and for the gradient of its input it is multiplied in int8, as SwitchBack does (arXiv 2304.13013); the
    gradient of the weights is a product of bf16.
    """

    def __init__(self, part: Tensor, *others: Tensor) -> None:
        super().__init__(part, *others)
        outputs, inputs = self.values.shape
        self.forward, self.backward = PackedOperand(inputs, outputs), PackedOperand(outputs, inputs)

    def pack(self) -> None:
        """Take over the parameters' present values."""
        super().pack()
        for name, packed in (("rows", self.forward), ("columns", self.backward)):
            pack = getattr(library(), f"train_pack_{name}_int8")
            pack(packed.columns, packed.depth, *addresses(self.values, packed.panels, packed.scales, packed.shifts))


class Head(Weight):
    """The output layer [vocabulary, width], which may be the embedding, too.

    The gradient of the logits holds many small shares beside one large one, which int8 would lose: it stays in bf16.
    """

    def __init__(self, parameter: Tensor) -> None:
        super().__init__(parameter)
        vocabulary, width = parameter.shape
        self.forward, self.backward = PackedOperand(width, vocabulary), PackedHalves(vocabulary, width)

    def pack(self) -> None:
        """Take over the parameter's present values."""
        f, b = self.forward, self.backward
        library().train_pack_rows_int8(f.columns, f.depth, *addresses(self.values, f.panels, f.scales, f.shifts))
        library().train_pack_columns(b.columns, b.depth, *addresses(self.values, b.panels))


def add_gradient(tokens: int, d: Tensor, x: Tensor, total: Tensor, scratch: Scratch) -> None:
    """Add d^T x to `total` [columns of d, columns of x], over the first `tokens` rows of both."""
    outputs, inputs = total.shape
    library().train_pair_tokens(tokens, outputs, *addresses(d, scratch.left))
    library().train_pair_tokens(tokens, inputs, *addresses(x, scratch.right))
    library().train_multiply_tokens(outputs, inputs, tokens, *addresses(scratch.left, scratch.right, total))


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer's weights."""

    norm_in: Weight
    qkv: Matrix
    out: Matrix
    norm_mlp: Weight
    gate_up: Matrix
    down: Matrix


class LlamaWeights:
    """A model's weights; those that consist of one parameter share its memory."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        decoder = model.model
        self.head = Head(model.lm_head.weight)
        self.table = self.head if model.config.tie_word_embeddings else Weight(decoder.embed_tokens.weight)
        self.layers = [_layer(layer) for layer in cast("Iterable[LlamaDecoderLayer]", decoder.layers)]
        self.norm = Weight(decoder.norm.weight)

    def __iter__(self) -> Iterator[Weight]:
        yield self.head
        if self.table is not self.head:
            yield self.table
        for layer in self.layers:
            yield from (layer.norm_in, layer.qkv, layer.out, layer.norm_mlp, layer.gate_up, layer.down)
        yield self.norm


def _layer(layer: LlamaDecoderLayer) -> LayerWeights:
    attention, mlp = layer.self_attn, layer.mlp
    return LayerWeights(
        norm_in=Weight(layer.input_layernorm.weight),
        qkv=Matrix(attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight),
        out=Matrix(attention.o_proj.weight),
        norm_mlp=Weight(layer.post_attention_layernorm.weight),
        gate_up=Matrix(mlp.gate_proj.weight, mlp.up_proj.weight),
        down=Matrix(mlp.down_proj.weight),
    )
