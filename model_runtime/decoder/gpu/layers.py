"""The parts of layers on a device, and what loads their weights there: matrices as products, all else in fp32."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch.nn import functional as F

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Dense, Experts, LayerSpec, Mlp
from model_runtime.checkpoint.weights import Fp32
from model_runtime.decoder.feed_forward import activated, choose_experts
from model_runtime.decoder.gpu.device import GpuFormat
from model_runtime.decoder.gpu.kernels import Heads, Kernels
from model_runtime.decoder.gpu.products import GpuProduct, Int8Product, PlainProduct
from model_runtime.decoder.tensors import as_tensor
from model_runtime.decoder.weights.attention import FullWeights
from model_runtime.decoder.weights.feed_forward import DenseWeights, ExpertWeights, RouterWeights
from model_runtime.decoder.weights.layer import LayerWeights, Norm


class GpuFeedForward(Protocol):
    """What a layer adds to each row after attention; its `bias` [hidden], or None, is still to be added."""

    @property
    def bias(self) -> torch.Tensor | None:
        """Return the sum still to be added to each row."""
        ...

    def __call__(self, y: torch.Tensor, /) -> torch.Tensor:
        """Return the part's output for the rows whose normed inputs are y [rows, hidden], in y's precision."""
        ...


class GpuDense:
    """Matrices that all rows go through; `up_bias` is added by the activation's kernel."""

    def __init__(
        self,
        spec: Dense,
        up: GpuProduct,
        up_bias: torch.Tensor | None,
        down: GpuProduct,
        bias: torch.Tensor | None,
        kernels: Kernels,
    ) -> None:
        self._spec, self._up, self._up_bias, self._down = spec, up, up_bias, down
        self.bias, self._activate = bias, kernels.activate

    def __call__(self, y: torch.Tensor) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        spec = self._spec
        return self._down(self._activate(self._up(y), self._up_bias, spec.activation, spec.gated))


class ExpertTensors(NamedTuple):
    """Weights of all experts: `up` [count, hidden, 2 intermediate], `down` [count, intermediate, hidden], biases.

    `router` [count, hidden], its bias and the correction [count] are fp32.
    """

    router: torch.Tensor
    router_bias: torch.Tensor | None
    correction: torch.Tensor | None
    up: torch.Tensor
    up_bias: torch.Tensor | None
    down: torch.Tensor
    down_bias: torch.Tensor | None


class GpuExperts:
    """Experts, of which each row goes through those that its scores choose; shapes do not depend on the choice.

    So a pass can be recorded: rows are sorted by expert, and one grouped product serves all of them.
    """

    bias = None

    def __init__(
        self, spec: Experts, tensors: ExpertTensors, shared: GpuDense | None, shared_gate: torch.Tensor | None
    ) -> None:
        self._spec, self._tensors, self._shared, self._shared_gate = spec, tensors, shared, shared_gate

    def __call__(self, y: torch.Tensor) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        spec, t = self._spec, self._tensors
        chosen, shares = choose_experts(spec, F.linear(y.float(), t.router, t.router_bias), t.correction)
        numbers, order = chosen.flatten().sort(stable=True)
        ends = torch.searchsorted(numbers, torch.arange(spec.count, device=y.device), right=True).int()
        up = F.grouped_mm(y[order // spec.chosen], t.up, offs=ends).float()
        up = up if t.up_bias is None else up + t.up_bias[numbers]
        out = F.grouped_mm(activated(up, spec.activation, True).to(y.dtype), t.down, offs=ends).float()
        out = out if t.down_bias is None else out + t.down_bias[numbers]
        by_row = torch.empty_like(out).index_copy_(0, order, out).view(len(y), spec.chosen, -1)
        total = (by_row * shares[..., None]).sum(1)
        return (total if self._shared is None else total + self._of_shared(self._shared, y)).to(y.dtype)

    def _of_shared(self, shared: GpuDense, y: torch.Tensor) -> torch.Tensor:
        out = shared(y).float()
        if self._shared_gate is None:
            return out
        return out * torch.sigmoid((y.float() * self._shared_gate).sum(-1, True))


class GpuLayer(NamedTuple):
    """One block on the device; biases [out] are not added by the products but by the kernels that follow them."""

    norm_in: Norm[torch.Tensor]
    qkv: GpuProduct
    heads: Heads
    out: GpuProduct
    out_bias: torch.Tensor | None
    norm_mlp: Norm[torch.Tensor]
    mlp: GpuFeedForward
    head_gates: torch.Tensor | None
    norm_after_attention: Norm[torch.Tensor] | None
    norm_after_mlp: Norm[torch.Tensor] | None


class WeightUploader(NamedTuple):
    """Loads weights onto `device` in `dtype`, or as int8; experts' weights in `dtype` for either format."""

    device: torch.device
    dtype: torch.dtype
    form: GpuFormat
    kernels: Kernels

    def table(self, weight: torch.Tensor) -> torch.Tensor:
        """Return a table to look up rows in; in `dtype` for either format, since few of its bytes are read."""
        return weight.to(self.device, self.dtype)

    def product(self, weight: torch.Tensor) -> GpuProduct:
        """Return a product with a weight; it shares the memory of a weight that is already on the device."""
        if self.form == "int8":
            return Int8Product(weight, self.device, self.kernels.scaled_product)
        return PlainProduct(self.table(weight))

    def norm(self, norm: Norm[Fp32]) -> Norm[torch.Tensor]:
        """Return a norm on the device."""
        return Norm(as_tensor(norm.weight).to(self.device), self._vector(norm.bias))

    def layer(self, config: ModelConfig, spec: LayerSpec, layer: LayerWeights) -> GpuLayer:
        """Return a block on the device."""
        attention = layer.attention
        assert isinstance(attention, FullWeights) and layer.norm_mlp is not None
        assert spec.mlp is not None and layer.mlp is not None
        return GpuLayer(
            norm_in=self.norm(layer.norm_in),
            qkv=self.product(as_tensor(attention.qkv.weight)),
            heads=self._heads(config, attention),
            out=self.product(as_tensor(attention.out.weight)),
            out_bias=self._vector(attention.out.bias),
            norm_mlp=self.norm(layer.norm_mlp),
            mlp=self._feed_forward(spec.mlp, layer.mlp),
            head_gates=self._vector(attention.head_gates),
            norm_after_attention=layer.norm_after_attention and self.norm(layer.norm_after_attention),
            norm_after_mlp=layer.norm_after_mlp and self.norm(layer.norm_after_mlp),
        )

    def _feed_forward(self, spec: Mlp, weights: DenseWeights | ExpertWeights) -> GpuFeedForward:
        if isinstance(weights, DenseWeights):
            assert isinstance(spec, Dense)
            return self._dense(spec, weights)
        assert isinstance(spec, Experts)
        shared = weights.shared and self._dense(Dense(spec.shared), weights.shared)
        return GpuExperts(spec, self._experts(spec, weights), shared, self._vector(weights.shared_gate))

    def _dense(self, spec: Dense, weights: DenseWeights) -> GpuDense:
        up, down = (self.product(as_tensor(product.weight)) for product in weights)
        return GpuDense(spec, up, self._vector(weights.up.bias), down, self._vector(weights.down.bias), self.kernels)

    def _experts(self, spec: Experts, weights: ExpertWeights) -> ExpertTensors:
        """Load all experts into tensors that hold them side by side, one after the other."""
        router = weights.router
        assert not isinstance(router, RouterWeights)  # no such model is computed here
        ups, downs, biases = list[torch.Tensor](), list[torch.Tensor](), list[tuple[torch.Tensor, torch.Tensor]]()
        for number in range(spec.count):
            (up, up_bias), (down, down_bias) = weights.weights(number)
            ups.append(self.table(as_tensor(up).T.contiguous()))
            downs.append(self.table(as_tensor(down).T.contiguous()))
            if up_bias is not None and down_bias is not None:
                biases.append((as_tensor(up_bias).to(self.device), as_tensor(down_bias).to(self.device)))
        up_biases, down_biases = (torch.stack(each) for each in zip(*biases, strict=True)) if biases else (None, None)
        return ExpertTensors(
            as_tensor(router).to(self.device), self._vector(weights.bias), self._vector(weights.correction),
            torch.stack(ups), up_biases, torch.stack(downs), down_biases,
        )  # fmt: skip

    def _heads(self, config: ModelConfig, attention: FullWeights) -> Heads:
        bias = self._vector(attention.qkv.bias)
        bias = None if bias is None else bias.view(-1, config.full.head_dim)
        return Heads(bias, self._vector(attention.head_norms), config.norm_eps)

    def _vector(self, weight: Fp32 | None) -> torch.Tensor | None:
        return None if weight is None else as_tensor(weight).to(self.device)
