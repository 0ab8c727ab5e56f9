"""The weights of a network as native passes read them: packed for their products once a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from efim_lab.gate.network import EfimForCausalLM, EfimLayer, RmsNorm
from efim_lab.workshop.training.native.products import Products


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
    """One layer's weights; None for parts that the network lacks."""

    norm_in: Weight
    qkv: Matrix
    q_norm: Weight | None
    k_norm: Weight | None
    head_gates: Weight | None
    out: Matrix
    norm_mlp: Weight
    gate_up: Matrix
    down: Matrix

    def __iter__(self) -> Iterator[Weight]:
        parts = self.q_norm, self.k_norm, self.head_gates
        yield from (self.norm_in, self.qkv, self.out, self.norm_mlp, self.gate_up, self.down)
        yield from (part for part in parts if part is not None)


class NetworkWeights:
    """A network's weights; those that consist of one parameter share its memory."""

    def __init__(self, network: EfimForCausalLM) -> None:
        decoder = network.model
        self.table = Matrix(decoder.embed_tokens.weight, exact_back=True)  # the output layer, too
        self.layers = [_layer(layer) for layer in decoder.blocks()]
        self.norm = Weight(decoder.norm.weight)
        self.token_values = _of(decoder.token_values)  # [vocabulary, layers * kv_heads * head_dim]

    def __iter__(self) -> Iterator[Weight]:
        yield self.table
        for layer in self.layers:
            yield from layer
        yield self.norm
        if self.token_values is not None:
            yield self.token_values


def _layer(layer: EfimLayer) -> LayerWeights:
    attention, mlp = layer.self_attn, layer.mlp
    return LayerWeights(
        norm_in=Weight(layer.input_layernorm.weight),
        qkv=Matrix(attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight),
        q_norm=_of(attention.q_norm),
        k_norm=_of(attention.k_norm),
        head_gates=_of(attention.head_gates),
        out=Matrix(attention.o_proj.weight),
        norm_mlp=Weight(layer.post_attention_layernorm.weight),
        gate_up=Matrix(mlp.gate_proj.weight, mlp.up_proj.weight),
        down=Matrix(mlp.down_proj.weight),
    )


def _of(module: RmsNorm | nn.Embedding | nn.Linear | None) -> Weight | None:
    return None if module is None else Weight(module.weight)
