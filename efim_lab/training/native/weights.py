"""The weights of a Llama as native passes read them: packed for their products once a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from efim_lab.training.native.products import Products

HEAD_DIM = 64


class Weight:
    """Parameters that a pass reads as one, `values`, in which they follow each other in the first dimension."""

    def __init__(self, part: Tensor, *others: Tensor) -> None:
        self._parts = (part, *others)
        self.values = torch.cat([each.detach() for each in self._parts]) if others else part.detach()

    def pack(self) -> None:
        """Copy the parameters' present values, in the form that products read."""
        if len(self._parts) > 1:
            torch.cat([part.detach() for part in self._parts], out=self.values)

    def set_gradient(self, total: Tensor) -> None:
        """Make the parts of a gradient of the shape of `values` the parameters' gradients."""
        at = 0
        for part in self._parts:
            part.grad = total[at : at + len(part)]
            at += len(part)


class Matrix(Weight):
    """The weights [outputs, inputs] of one product; `exact_back` is as in Products."""

    def __init__(self, part: Tensor, *others: Tensor, exact_back: bool = False) -> None:
        super().__init__(part, *others)
        outputs, inputs = self.values.shape
        self.products = Products(outputs, inputs, exact_back)

    def pack(self) -> None:
        """Copy the parameters' present values, in the form that products read."""
        super().pack()
        self.products.pack(self.values)


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
        self.table = Matrix(decoder.embed_tokens.weight, exact_back=True)  # the output layer, too
        self.layers = [_layer(layer) for layer in cast("Iterable[LlamaDecoderLayer]", decoder.layers)]
        self.norm = Weight(decoder.norm.weight)

    def __iter__(self) -> Iterator[Weight]:
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
