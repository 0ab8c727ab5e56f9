"""Loads weights onto a device: matrices as products, everything else in fp32."""

from __future__ import annotations

from typing import NamedTuple

import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Fp32
from model_runtime.decoder.gpu.device import GpuFormat
from model_runtime.decoder.gpu.kernels import Heads
from model_runtime.decoder.gpu.products import GpuProduct, Int8Product, PlainProduct, ScaledProduct
from model_runtime.decoder.layers import LayerWeights, Norm
from model_runtime.decoder.tensors import as_tensor


class GpuLayer(NamedTuple):
    """One block on the device; biases [out] are not added by the products but by the kernels that follow them."""

    norm_in: Norm[torch.Tensor]
    qkv: GpuProduct
    heads: Heads
    out: GpuProduct
    out_bias: torch.Tensor | None
    norm_mlp: Norm[torch.Tensor]
    up: GpuProduct
    up_bias: torch.Tensor | None
    down: GpuProduct
    down_bias: torch.Tensor | None
    head_gates: torch.Tensor | None


class WeightUploader(NamedTuple):
    """Loads weights onto `device` in `dtype`, or as int8 that `scaled` multiplies with."""

    device: torch.device
    dtype: torch.dtype
    form: GpuFormat
    scaled: ScaledProduct

    def table(self, weight: torch.Tensor) -> torch.Tensor:
        """Return a table to look up rows in; in `dtype` for either format, since few of its bytes are read."""
        return weight.to(self.device, self.dtype)

    def product(self, weight: torch.Tensor) -> GpuProduct:
        """Return a product with a weight; it shares the memory of a weight that is already on the device."""
        return (
            Int8Product(weight, self.device, self.scaled) if self.form == "int8" else PlainProduct(self.table(weight))
        )

    def norm(self, norm: Norm[Fp32]) -> Norm[torch.Tensor]:
        """Return a norm on the device."""
        return Norm(as_tensor(norm.weight).to(self.device), self._vector(norm.bias))

    def layer(self, config: ModelConfig, layer: LayerWeights) -> GpuLayer:
        """Return a block on the device."""
        return GpuLayer(
            norm_in=self.norm(layer.norm_in),
            qkv=self.product(as_tensor(layer.qkv.weight)),
            heads=self._heads(config, layer),
            out=self.product(as_tensor(layer.out.weight)),
            out_bias=self._vector(layer.out.bias),
            norm_mlp=self.norm(layer.norm_mlp),
            up=self.product(as_tensor(layer.up.weight)),
            up_bias=self._vector(layer.up.bias),
            down=self.product(as_tensor(layer.down.weight)),
            down_bias=self._vector(layer.down.bias),
            head_gates=self._vector(layer.head_gates),
        )

    def _heads(self, config: ModelConfig, layer: LayerWeights) -> Heads:
        bias = self._vector(layer.qkv.bias)
        bias = None if bias is None else bias.view(-1, config.alike.attention.head_dim)
        return Heads(bias, self._vector(layer.head_norms), config.norm_eps)

    def _vector(self, weight: Fp32 | None) -> torch.Tensor | None:
        return None if weight is None else as_tensor(weight).to(self.device)
