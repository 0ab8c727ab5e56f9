"""The feed-forward part of a layer, in torch: a dense part for all rows, or experts that a router chooses."""

from __future__ import annotations

from statistics import NormalDist
from typing import Protocol

import torch
from torch.nn import functional as F

from model_runtime.checkpoint.families.layer_spec import Dense, ExpertActivation, Experts, Mlp
from model_runtime.decoder.linear import Linear, linear
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.tensors import as_tensor
from model_runtime.decoder.weights.feed_forward import DenseWeights, ExpertWeights, RouterWeights
from model_runtime.decoder.weights.product import Product

CLAMP, SHARPNESS = 7.0, 1.702  # of gpt-oss' activation


class FeedForward(Protocol):
    """What a layer adds to each row after attention."""

    def __call__(self, y: torch.Tensor, /) -> torch.Tensor:
        """Return the part's output for the rows whose normed inputs are y [rows, hidden]."""
        ...


def feed_forward(spec: Mlp, weights: DenseWeights | ExpertWeights, form: Format) -> FeedForward:
    """Return the part that a layer's spec asks for, with packed weights."""
    if isinstance(spec, Experts):
        assert isinstance(weights, ExpertWeights)
        return ExpertsPart(spec, weights, form)
    assert isinstance(weights, DenseWeights)
    return DensePart(spec, weights, form)


class DensePart:
    """Matrices that all rows go through."""

    def __init__(self, spec: Dense, weights: DenseWeights, form: Format) -> None:
        """Pack the weights."""
        self._spec, self._up, self._down = spec, packed(weights.up, form), packed(weights.down, form)

    def __call__(self, y: torch.Tensor) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        made = self._up(y)
        if self._spec.sparsity:
            gate, up = made.chunk(2, dim=-1)
            made = torch.cat((_above(gate, self._spec.sparsity), up), -1)
        return self._down(activated(made, self._spec.activation, self._spec.gated))


class Expert:
    """One of the experts of a layer."""

    def __init__(self, activation: ExpertActivation, weights: DenseWeights, form: Format) -> None:
        """Pack the weights."""
        self._activation: ExpertActivation = activation
        self._up, self._down = packed(weights.up, form), packed(weights.down, form)

    def __call__(self, y: torch.Tensor) -> torch.Tensor:
        """Return what the rows y [rows, hidden] become."""
        return self._down(activated(self._up(y), self._activation, gated=True))


class ExpertsPart:
    """Experts, of which each row goes through those that its scores choose.

    A row's results are added in the order of the experts' numbers, so that its bits do not depend on its company.
    """

    def __init__(self, spec: Experts, weights: ExpertWeights, form: Format) -> None:
        """Pack the weights, one expert after the other."""
        self._spec = spec
        # fp16 holds what checkpoints store of it, and a row alone is computed as among others
        routing: Format = "fp32" if form == "fp32" else "fp16"
        if isinstance(weights.router, RouterWeights):
            self.router = RouterNetwork(weights.router, routing)
        else:
            self.router = packed(Product(weights.router, weights.bias), routing)
        self._correction = None if weights.correction is None else as_tensor(weights.correction)
        self._experts = [Expert(spec.activation, weights.weights(number), form) for number in range(spec.count)]
        self._shared = weights.shared and DensePart(Dense(spec.shared), weights.shared, form)
        self._shared_gate = None if weights.shared_gate is None else as_tensor(weights.shared_gate)

    def __call__(self, y: torch.Tensor) -> torch.Tensor:
        """Return the part's output for the rows y [rows, hidden]."""
        return self.computed(y, self.router(y))

    def computed(self, y: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Return the experts' output for rows with these router logits [rows, count]."""
        chosen, shares = choose_experts(self._spec, logits, self._correction)
        out = self._of_shared(y)
        for number in sorted({int(each) for each in chosen.flatten()}):
            if number == self._spec.count:
                continue  # none was chosen
            rows, ranks = torch.nonzero(chosen == number, as_tuple=True)
            out[rows] += self._experts[number](y[rows]) * shares[rows, ranks, None]
        return out

    def _of_shared(self, y: torch.Tensor) -> torch.Tensor:
        if self._shared is None:
            return torch.zeros_like(y)
        out = self._shared(y)
        if self._shared_gate is None:
            return out
        return out * torch.sigmoid((y * self._shared_gate).sum(-1, keepdim=True))


class RouterNetwork:
    """A router of several layers, which may read the output of the previous layer's router."""

    def __init__(self, weights: RouterWeights, form: Format) -> None:
        """Pack the weights, which are small."""
        self._first, self._last = packed(weights.first, form), packed(weights.last, form)
        self._inner = [packed(each, form) for each in weights.inner]
        self._carried = None if weights.carried is None else as_tensor(weights.carried)
        self._norm, self._eps = as_tensor(weights.norm), weights.norm_eps

    def __call__(self, y: torch.Tensor) -> torch.Tensor:
        """Return the logits of rows whose normed inputs are y [rows, hidden], of the first layer."""
        return self.logits(self.hidden(y, None))

    def hidden(self, y: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor:
        """Return the router's numbers of rows; `before` are the numbers of the previous layer's router."""
        made = self._first(y)
        return made if before is None or self._carried is None else made + before * self._carried

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits that follow from the router's numbers."""
        x = torch.rms_norm(hidden, self._norm.shape, self._norm, self._eps)
        for product in self._inner:
            x = F.gelu(product(x))
        return self._last(x)


def choose_experts(
    spec: Experts, logits: torch.Tensor, correction: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the numbers and the shares [rows, chosen] of the experts that a router's logits [rows, count] choose."""
    scores = logits.softmax(-1) if spec.scores == "softmax" else logits.sigmoid()
    wanted = scores if correction is None else scores + correction
    if spec.groups > 1:
        by_group = wanted.view(len(wanted), spec.groups, -1)
        best = by_group.topk(spec.group_best, -1).values.sum(-1).topk(spec.chosen_groups, -1).indices
        left_out = torch.ones(by_group.shape[:2], dtype=torch.bool).scatter_(1, best, False)
        wanted = by_group.masked_fill(left_out[..., None], float("-inf")).flatten(1)
    chosen = wanted.topk(spec.chosen, -1).indices
    shares = scores.gather(1, chosen)
    if spec.normalized:
        shares = shares / shares.sum(-1, keepdim=True).clamp_min(1e-20)
    return chosen, shares * spec.scale


def activated(x: torch.Tensor, activation: ExpertActivation, gated: bool) -> torch.Tensor:
    """Return the activation of x [rows, size]; if gated, the activation of its first half, times the other."""
    if activation == "clamped_silu":
        gate, up = x.chunk(2, dim=-1)
        gate, up = gate.clamp(max=CLAMP), up.clamp(-CLAMP, CLAMP)
        return (up + 1) * gate * torch.sigmoid(gate * SHARPNESS)
    gate, up = x.chunk(2, dim=-1) if gated else (x, None)
    y = F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")
    return y if up is None else y.mul_(up)


def _above(x: torch.Tensor, share: float) -> torch.Tensor:
    """Return by how much numbers exceed what a share of their row lies below, if they are normally distributed."""
    deviation, mean = torch.std_mean(x, dim=-1, keepdim=True, correction=0)
    return F.relu(x - mean - deviation * NormalDist().inv_cdf(share))


def packed(product: Product, form: Format) -> Linear:
    """Return a product with prepared weights."""
    weight, bias = product
    return linear(as_tensor(weight), None if bias is None else as_tensor(bias), form)
