"""Networks whose layers do more with the stream than add to it, in torch: Gemma 3n's, and ZAYA1's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.tensor_shapes import INPUT_SCALES, OWN_INPUTS, RESIDUAL_SCALES, RESIDUALS
from model_runtime.checkpoint.weights import Weights, as_fp32
from model_runtime.decoder.decoder import Company, Decoder, PackedLayer
from model_runtime.decoder.feed_forward import ExpertsPart, RouterNetwork, packed
from model_runtime.decoder.linear import Linear
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.tensors import as_tensor
from model_runtime.decoder.weights.product import Product

LEAST_SQUARE = 1e-5  # of a stream whose length is changed


class Correction(NamedTuple):
    """What a layer of Gemma 3n has for its streams: matrices, and weights of norms."""

    router: Linear
    router_norm: torch.Tensor
    predict: Linear
    correct: Linear
    left: Linear
    right: Linear
    beside_norm: torch.Tensor
    own_gate: Linear
    own_out: Linear
    own_norm: torch.Tensor
    scale: torch.Tensor


class AltUpDecoder(Decoder):
    """Computes Gemma 3n: what layers add goes to one stream, and corrects the others (arXiv 2301.13310)."""

    def __init__(self, config: ModelConfig, weights: Weights, form: Format) -> None:
        """Prepare the weights; `weights` may be dropped afterwards."""
        super().__init__(config, weights, form)
        assert config.altup is not None
        self._altup, self._eps = config.altup, config.norm_eps

        def product(name: str, scale: float = 1.0) -> Linear:
            return packed(Product(as_fp32(weights[f"{name}.weight"]) * scale, None), form)

        def vector(name: str) -> torch.Tensor:
            return as_tensor(as_fp32(weights[name]))

        self._own_table = as_tensor(weights[OWN_INPUTS])  # mapped: rows that no text has are never read
        self._own = product("model.per_layer_model_projection", config.hidden**-0.5)
        self._own_norm = vector("model.per_layer_projection_norm.weight")
        others = range(config.altup.streams - 1)
        self._apart = [product(f"model.altup_projections.{i}") for i in others]
        self._together = [product(f"model.altup_unembed_projections.{i}") for i in others]
        self._corrections = [
            Correction(
                product(f"{at}altup.modality_router"),
                vector(f"{at}altup.router_norm.weight"),
                product(f"{at}altup.prediction_coefs"),
                product(f"{at}altup.correction_coefs"),
                product(f"{at}laurel.linear_left"),
                product(f"{at}laurel.linear_right"),
                vector(f"{at}laurel.post_laurel_norm.weight"),
                product(f"{at}per_layer_input_gate"),
                product(f"{at}per_layer_projection"),
                vector(f"{at}post_per_layer_input_norm.weight"),
                vector(f"{at}altup.correct_output_scale"),
            )
            for at in (f"model.layers.{i}." for i in range(len(config.layers)))
        ]

    def _through_layers(
        self, x: torch.Tensor, ids: torch.Tensor, company: Company, wanted: Sequence[int]
    ) -> torch.Tensor:
        own = self._own_inputs(x, ids)
        length = _square(x).sqrt()
        streams = torch.stack([x, *(_of_length(each(x), length) for each in self._apart)])
        for index, (layer, correction) in enumerate(zip(self._layers, self._corrections, strict=True)):
            streams = self._corrected(index, layer, correction, streams, own[:, index], company)
            if index == self.config.leaves:
                rows = company.last_rows(wanted)
                streams, own, company = streams[:, rows], own[rows], company.narrowed(wanted)
        first, *others = streams
        length = _square(first).sqrt()
        made = [_of_length(each(other), length) for each, other in zip(self._together, others, strict=True)]
        return torch.stack([first, *made]).mean(0)

    def _own_inputs(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return each layer's own inputs, [rows, layers, own]: from the token and from its embedding."""
        a = self._altup
        known = torch.where(ids < a.own_vocab, ids, 0)
        looked_up = self._own_table[known].float() * math.sqrt(a.own)
        made = self._rms(self._own(x).view(len(x), -1, a.own), self._own_norm)
        return (made + looked_up.view_as(made)) * math.sqrt(0.5)

    def _corrected(
        self,
        index: int,
        layer: PackedLayer,
        c: Correction,
        streams: torch.Tensor,
        own: torch.Tensor,
        company: Company,
    ) -> torch.Tensor:
        """Return all streams [streams, rows, hidden] behind a layer."""
        a, rows = self._altup, streams.shape[1]
        mixed = c.predict(self._routed(streams[a.active], c)).view(rows, a.streams, a.streams)
        predicted = streams + torch.matmul(mixed, streams.transpose(0, 1)).transpose(0, 1)
        active = predicted[a.active]
        normed = self._normed(active, layer.norm_in)
        beside = normed + self._rms(c.right(c.left(normed)), c.beside_norm)
        x = (active + self._attended(index, layer, normed, company) + beside) * math.sqrt(0.5)
        assert layer.mlp is not None and layer.norm_mlp is not None
        x = x + self._after(layer.mlp(self._normed(x, layer.norm_mlp)), layer.norm_after_mlp)
        shares = c.correct(self._routed(x, c)) + 1
        corrected = predicted + (x - active) * shares.T[:, :, None]
        first = corrected[a.active] * c.scale if a.scaled else corrected[a.active]
        added = self._rms(c.own_out(F.gelu(c.own_gate(first), approximate="tanh") * own), c.own_norm)
        corrected[1:] += added
        return corrected

    def _routed(self, x: torch.Tensor, c: Correction) -> torch.Tensor:
        return torch.tanh(c.router(self._rms(x, c.router_norm)) / x.shape[-1])

    def _rms(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.rms_norm(x, weight.shape, weight, self._eps)


def _square(x: torch.Tensor) -> torch.Tensor:
    return (x * x).mean(-1, keepdim=True)


def _of_length(x: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    return x * length / _square(x).clamp_min(LEAST_SQUARE).sqrt()


class Residual(NamedTuple):
    """The shifts and scales of a part's output and of its residual, [hidden] each."""

    added_bias: torch.Tensor
    added_scale: torch.Tensor
    kept_bias: torch.Tensor
    kept_scale: torch.Tensor

    def __call__(self, added: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of the output and the residual."""
        return (added + self.added_bias) * self.added_scale + (x + self.kept_bias) * self.kept_scale


class ScaledDecoder(Decoder):
    """Computes ZAYA1: residuals are scaled, and each layer's router reads the previous layer's router."""

    def __init__(self, config: ModelConfig, weights: Weights, form: Format) -> None:
        """Prepare the weights; `weights` may be dropped afterwards."""
        super().__init__(config, weights, form)

        def vectors(at: str, names: Sequence[str]) -> list[torch.Tensor]:
            return [as_tensor(as_fp32(weights[at + name])) for name in names]

        self._shift, self._scale = vectors("model.", INPUT_SCALES)
        self._residuals = [
            [Residual(*vectors(f"model.layers.{i}.{part}.", RESIDUAL_SCALES)) for part in RESIDUALS]
            for i in range(len(config.layers))
        ]

    def _through_layers(
        self, x: torch.Tensor, ids: torch.Tensor, company: Company, wanted: Sequence[int]
    ) -> torch.Tensor:
        x, routed = (x + self._shift) * self._scale, None
        for index, (layer, (behind_attention, behind_mlp)) in enumerate(
            zip(self._layers, self._residuals, strict=True)
        ):
            x = behind_attention(self._attended(index, layer, self._normed(x, layer.norm_in), company), x)
            assert isinstance(layer.mlp, ExpertsPart) and layer.norm_mlp is not None
            router, y = layer.mlp.router, self._normed(x, layer.norm_mlp)
            assert isinstance(router, RouterNetwork)
            routed = router.hidden(y, routed)
            x = behind_mlp(layer.mlp.computed(y, router.logits(routed)), x)
        return x[company.last_rows(wanted)]


def torch_decoder(config: ModelConfig, weights: Weights, form: Format) -> Decoder:
    """Return the decoder in torch that computes a model."""
    if config.scaled_residuals:
        return ScaledDecoder(config, weights, form)
    return (Decoder if config.altup is None else AltUpDecoder)(config, weights, form)
