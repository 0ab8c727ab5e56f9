"""Joins the weights of layers' feed-forward parts, dense or of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.expert_names import EXPERT_NAMES
from model_runtime.checkpoint.families.layer_spec import Dense, Experts, Mlp
from model_runtime.checkpoint.tensor_shapes import up_names
from model_runtime.checkpoint.weights import Fp32, Weights, as_fp32
from model_runtime.decoder.weights.product import Product, joined_product


class DenseWeights(NamedTuple):
    """A feed-forward part, or one expert: `up` is gate and up, one after the other, or up alone if it has no gate."""

    up: Product
    down: Product


class RouterWeights(NamedTuple):
    """A router that is a network: `first` gives its numbers, plus the previous router's numbers times
    `carried`, if it reads them. Behind an RMS norm with weights `norm` [numbers] are three products.
    """

    first: Product
    carried: Fp32 | None
    norm: Fp32
    norm_eps: float
    inner: tuple[Product, Product]
    last: Product


class ExpertWeights(NamedTuple):
    """A feed-forward part of experts: of each, `weights` returns those in fp32, which are many.

    `router`, a matrix [count, hidden] or a network, gives their scores; its `bias` and the `correction` [count] are
    None if there is none.
    """

    router: Fp32 | RouterWeights
    bias: Fp32 | None
    correction: Fp32 | None
    weights: Callable[[int], DenseWeights]
    shared: DenseWeights | None
    shared_gate: Fp32 | None


class FeedForwardTensors:
    """The tensors of one layer's feed-forward part in a checkpoint; their names begin with `at`."""

    def __init__(self, config: ModelConfig, weights: Weights, at: str) -> None:
        self._config, self._weights, self._at = config, weights, at

    def joined(self, mlp: Mlp | None) -> DenseWeights | ExpertWeights | None:
        """Return the weights as decoders compute with them."""
        if mlp is None:
            return None
        return self._dense("mlp.", mlp) if isinstance(mlp, Dense) else self._experts(mlp)

    def _product(self, names: list[str], bias: bool = False, scale: float = 1) -> Product:
        return joined_product(self._weights, [self._at + name for name in names], bias, scale)

    def _dense(self, at: str, mlp: Dense) -> DenseWeights:
        ups, down = up_names(mlp)
        up = self._product([at + name for name in ups], mlp.mlp_bias)
        if mlp.gate_scale != 1:
            scales = np.ones(len(up.weight), np.float32)
            scales[: mlp.intermediate] = mlp.gate_scale
            up = Product(up.weight * scales[:, None], None if up.bias is None else up.bias * scales)
        scale = self._config.residual_scale * mlp.down_scale
        return DenseWeights(up, self._product([at + down], mlp.mlp_bias, scale))

    def _experts(self, experts: Experts) -> ExpertWeights:
        names, scale = EXPERT_NAMES[self._config.family], self._config.residual_scale

        def found(name: str, wanted: bool) -> Fp32 | None:
            return as_fp32(self._weights[self._at + name]).reshape(-1) if wanted else None

        def of_expert(number: int) -> DenseWeights:
            if names.joined:
                return self._of_joined(experts, number)
            up, gate, down = (name.format(number) for name in (names.up, names.gate, names.down))
            return DenseWeights(self._product([gate, up]), self._product([down], scale=scale))

        return ExpertWeights(
            self._router(names.router, experts),
            found(f"{names.router}.bias", experts.biased),
            found(names.correction, experts.correction),
            of_expert,
            self._dense(names.shared, Dense(experts.shared, joined=names.shared_joined)) if experts.shared else None,
            found(f"{names.shared_gate}.weight", experts.shared_gate),
        )

    def _router(self, name: str, experts: Experts) -> Fp32 | RouterWeights:
        at = self._at + name
        if not experts.routed:
            return as_fp32(self._weights[f"{at}.weight"])
        one, two = (self._product([f"{name}.router_mlp.{each}"], True) for each in ("fc1", "fc2"))
        return RouterWeights(
            self._product([f"{name}.down_proj"], True),
            as_fp32(self._weights[f"{at}.router_states_scale"]) if experts.chained else None,
            as_fp32(self._weights[f"{at}.router_mlp.norm.weight"]),
            self._config.norm_eps,
            (one, two),
            self._product([f"{name}.router_mlp.out_proj"]),
        )

    def _of_joined(self, experts: Experts, number: int) -> DenseWeights:
        """Return one expert of tensors that hold all; gate and up stored in turns come one after the other."""
        names, scale = EXPERT_NAMES[self._config.family], np.float32(self._config.residual_scale)
        up, down = (as_fp32(self._weights[self._at + name][number]) for name in (names.up, names.down))
        biases: list[Fp32 | None] = [None, None]
        if names.turned:
            up, down = _in_halves(np.ascontiguousarray(up.T)), np.ascontiguousarray(down.T)
        if experts.biased:
            each = (as_fp32(self._weights[f"{self._at}{name}_bias"][number]) for name in (names.up, names.down))
            of_up, of_down = each
            biases = [_in_halves(of_up), of_down]
        return DenseWeights(Product(up, biases[0]), Product(down * scale if scale != 1 else down, biases[1]))


def _in_halves(rows: Fp32) -> Fp32:
    """Put rows that stand in turns one after the other: all gates, then all ups."""
    return np.concatenate((rows[::2], rows[1::2]))
