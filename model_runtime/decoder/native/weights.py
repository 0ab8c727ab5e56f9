"""Lays weights out as the compiled part computes with them."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import (
    LATENT_NORM_EPS,
    Attention,
    Experts,
    Full,
    Latent,
    Recurrence,
    State,
)
from model_runtime.checkpoint.gguf.tensors import Blocks
from model_runtime.checkpoint.rope import rotations
from model_runtime.checkpoint.tensor_shapes import EARLY_NORM
from model_runtime.checkpoint.weights import BF16, Fp32, Weights
from model_runtime.decoder.native import library as c
from model_runtime.decoder.native.held_experts import ExpertKeeper, Router
from model_runtime.decoder.native.packing import FORMS, pack, round_up
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.weights.attention import AttentionWeights, FullWeights, LatentWeights, early_keys
from model_runtime.decoder.weights.feed_forward import ExpertWeights, RouterWeights
from model_runtime.decoder.weights.layer import LayerWeights, Norm, fused, head, norm, stored_head
from model_runtime.decoder.weights.product import Product
from model_runtime.decoder.weights.state import StateWeights
from model_runtime.kv.layout import LANES, KvLayout, StatePlace
from model_runtime.mapped_memory import map_zeros

STORED = np.dtype(np.float32), np.dtype(np.float16), BF16  # formats of the head's rows, as pass.h numbers them
REGION = 32 << 20  # bytes that small tensors share: alone, most of them would not fill a huge page
ALIGNMENT = 64  # bytes: a line of the cache


class WeightMemory:
    """Arrays of zeros side by side; a region of memory is released with the last of its arrays.

    Regions are in huge pages, which spare the processor most misses of its page table.
    """

    def __init__(self) -> None:
        self._region, self._used = np.empty(0, dtype=np.uint8), 0

    def zeros(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Allocate zeros."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if self._used + size > len(self._region):
            self._region, self._used = map_zeros(max(size, REGION), in_huge_pages=True), 0
        start, self._used = self._used, -(-(self._used + size) // ALIGNMENT) * ALIGNMENT
        return self._region[start : start + size].view(dtype).reshape(shape)


class NativeWeights:
    """A model in a compiled format, in memory that the compiled part points into: it outlives all users."""

    def __init__(
        self,
        config: ModelConfig,
        layout: KvLayout,
        weights: Weights,
        form: Format,
        keeper: ExpertKeeper | None = None,
    ) -> None:
        """Lay the weights out; they may be dropped afterwards.

        With a keeper some experts alone are in memory. Raises ModelError if it has no room for the others.
        """
        self._config, self._layout = config, layout
        self._form: Format = form
        self._memory = WeightMemory()
        self._arrays: list[npt.NDArray[Any]] = []
        self._structures: list[tuple[object, ...]] = []
        self._with_experts = [i for i, layer in enumerate(config.layers) if isinstance(layer.mlp, Experts)]
        rotated, positions = config.rotated, config.positions
        self.ropes = {rope: self._kept(rotations(rope, rotated, positions)) for rope in config.ropes}
        self.held = None if keeper is None else keeper.hold(config, weights, form)
        self.model = self._native_model(weights)
        if self.held is not None:
            self.model.fetch, self.model.wait = self.held.fetch, self.held.wait

    def _native_model(self, weights: Weights) -> c.NativeModel:
        config, count = self._config, len(self._config.layers)
        heads, mlp = _heads(next(iter(config.attentions), None)), config.dense
        layers = (c.NativeLayer * count)(*(self._layer(i, fused(config, weights, i)) for i in range(count)))
        early = [index for index, each in enumerate(config.layers) if each.early and each.reads is None]
        parts = [early_keys(config, index, weights) for index in early]
        early_norm = norm(config, weights, EARLY_NORM) if early else None
        return c.NativeModel(
            layers, self._norm(norm(config, weights, "model.norm")),
            *self._head(head(config, weights), stored_head(config, weights)), count, config.hidden,
            round_up(config.hidden, 64), heads.queries, heads.keys, heads.key, heads.value, mlp.intermediate,
            FORMS[self._form], mlp.gated, mlp.activation == "gelu_tanh", config.alike.parallel,
            config.leaves, config.first_early or 0, *self._early(early, parts, early_norm),
            config.norm_eps, LATENT_NORM_EPS, heads.scale,
        )  # fmt: skip

    def _head(
        self, rows: npt.NDArray[Any], stored: npt.NDArray[Any] | Blocks | None
    ) -> tuple[c.NativeMatrix, c.StoredRows]:
        """Return the head, and its rows as they are stored where these correct 4 bits (head.h).

        It has 8 bits where they cannot, unless its numbers are stored in 4.
        """
        form: Format = self._form
        corrections = c.StoredRows()
        if (
            form == "int4"
            and isinstance(stored, np.ndarray)
            and stored.dtype in STORED
            and not stored.shape[1] % LANES
        ):
            self._arrays.append(stored)
            corrections = c.StoredRows(stored.ctypes.data, *stored.shape, STORED.index(stored.dtype) + 1)
        elif form == "int4" and not (isinstance(stored, Blocks) and stored.kind.name == "Q4_0"):
            form = "int8_groups"
        return self._matrix(Product(rows, None), form), corrections

    def _early(
        self, layers: list[int], parts: list[Product], norm: Norm[Fp32] | None
    ) -> tuple[int, int, c.NativeNorm, c.NativeMatrix]:
        """Return what makes keys and values of early layers: how many write, which, the norm, and one matrix."""
        if not layers:
            return 0, 0, c.NativeNorm(), c.NativeMatrix()
        biases = [part.bias for part in parts if part.bias is not None]
        joined = Product(np.concatenate([part.weight for part in parts]), np.concatenate(biases) if biases else None)
        return len(layers), self._keep(np.array(layers, np.int64)), self._norm(norm), self._matrix(joined)

    def _layer(self, index: int, parts: LayerWeights) -> c.NativeLayer:
        spec = self._config.layers[index]
        norms = parts.norm_in, parts.norm_mlp, parts.norm_after_attention, parts.norm_after_mlp
        layer = c.NativeLayer(*map(self._norm, norms))
        if spec.attention is not None and parts.attention is not None:
            self._add_attention(layer, index, spec.attention, parts.attention)
        if spec.state is not None and parts.state is not None:
            made = self._state(spec.state, self._layout.state_places[index], parts.state)
            layer.state = ctypes.pointer(made)
        if isinstance(parts.mlp, ExpertWeights):
            layer.experts = ctypes.pointer(self._experts(index, parts.mlp))
        elif parts.mlp is not None:
            layer.up, layer.down = (self._matrix(product) for product in parts.mlp)
        return layer

    def _add_attention(self, layer: c.NativeLayer, index: int, spec: Attention, parts: AttentionWeights) -> None:
        (layer.kind, layer.at), layer.window = self._layout.places[index], spec.window
        layer.rope, layer.out = self.ropes[spec.rope].ctypes.data, self._matrix(parts.out)
        if isinstance(spec, Latent):
            assert isinstance(parts, LatentWeights)
            layer.latent = ctypes.pointer(self._latent(spec, parts))
            return
        assert isinstance(spec, Full) and isinstance(parts, FullWeights)
        layer.qkv = self._matrix(parts.qkv)
        layer.cap, layer.has_output_gates = spec.score_cap, spec.output_gates
        own = self._config.layers[index]
        layer.has_keys = own.reads is None and not own.early
        small = parts.head_norms, parts.head_gates, parts.sinks
        layer.head_norms, layer.head_gates, layer.sinks = map(self._kept_or_none, small)

    def _state(self, spec: State, place: StatePlace, parts: StateWeights) -> c.NativeState:
        small = parts.conv_bias, parts.step_bias, parts.rates, parts.skip, parts.norm
        made = c.NativeState(
            self._matrix(parts.first), self._matrix(parts.out), self._keep(parts.conv),
            *map(self._kept_or_none, small), channels=spec.channels, kernel=spec.kernel,
            inputs_at=place.inputs.start, memory_at=place.memory.start,
        )  # fmt: skip
        if isinstance(spec, Recurrence):
            made.heads, made.groups, made.key, made.value = spec.heads, spec.groups, spec.key, spec.value
            made.normed, made.is_correcting = spec.normed, spec.rule == "correct"
            made.is_gated_first = spec.gating == "before_norm"
            made.least_step, made.most_step = spec.least_step, spec.most_step
        self._structures.append((made,))
        return made

    def _latent(self, spec: Latent, parts: LatentWeights) -> c.NativeLatent:
        keys, values = ((c.NativeMatrix * spec.heads)() for _ in range(2))
        for number in range(spec.heads):
            keys[number] = self._matrix(Product(parts.keys[number], None))
            values[number] = self._matrix(Product(parts.values[number], None))
        made = c.NativeLatent(
            self._matrix(parts.first),
            c.NativeMatrix() if parts.query is None else self._matrix(parts.query),
            self._kept_or_none(parts.query_norm), self._keep(parts.latent_norm), keys, values,
            spec.rank, spec.plain, spec.rotated, spec.value, spec.query_rank,
        )  # fmt: skip
        self._structures.append((made, keys, values))
        return made

    def _experts(self, index: int, parts: ExpertWeights) -> c.NativeExperts:
        spec = self._config.layers[index].mlp
        assert isinstance(spec, Experts)
        padded = round_up(self._config.hidden, 64)
        assert not isinstance(parts.router, RouterWeights)  # `native_missing` refuses them
        router = np.pad(parts.router, ((0, 0), (0, padded - self._config.hidden)))
        gate = parts.shared_gate
        arrays = parts.bias, parts.correction, None if gate is None else np.pad(gate, (0, padded - len(gate)))
        kept_router, late = self._kept(router), 0
        if self.held is not None:
            layer = self.held.add_layer(Router(kept_router, parts.bias, parts.correction))
            ups, downs, late = layer.up, layer.down, layer.late.ctypes.data
        else:
            ups, downs = ((c.NativeMatrix * spec.count)() for _ in range(2))
            for number in range(spec.count):
                ups[number], downs[number] = (self._matrix(each) for each in parts.weights(number))
        shared = [self._matrix(each) for each in parts.shared or ()] or [c.NativeMatrix()] * 2
        made = c.NativeExperts(
            kept_router.ctypes.data, *map(self._kept_or_none, arrays), ups, downs, *shared,
            spec.count, spec.chosen, spec.intermediate, spec.shared,
            spec.groups, spec.chosen_groups, spec.group_best, spec.scores == "sigmoid", spec.normalized,
            spec.activation == "gelu_tanh", spec.activation == "clamped_silu",
            self._with_experts.index(index), late, spec.scale,
        )  # fmt: skip
        self._structures.append((made, ups, downs))
        return made

    def _norm(self, norm: Norm[Fp32] | None) -> c.NativeNorm:
        if norm is None:
            return c.NativeNorm(0, 0)
        weight, bias = norm
        padded = round_up(len(weight), 64)
        both = (each if each is None else np.pad(each, (0, padded - len(each))) for each in (weight, bias))
        return c.NativeNorm(*map(self._kept_or_none, both))

    def _matrix(self, product: Product, form: Format | None = None) -> c.NativeMatrix:
        packed = pack(product, form or self._form, self._memory.zeros)
        self._arrays += [each for each in packed if each is not None]
        return packed.native()

    def _kept_or_none(self, array: npt.NDArray[Any] | None) -> int:
        return 0 if array is None else self._keep(array)

    def _keep(self, array: npt.NDArray[Any]) -> int:
        return self._kept(array).ctypes.data

    def _kept(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        kept = self._memory.zeros(array.shape, array.dtype)
        kept[...] = array
        self._arrays.append(kept)
        return kept


class _Heads(NamedTuple):
    """Heads of queries and of keys, numbers of a key and a value as attention sees them, and the scale of scores."""

    queries: int
    keys: int
    key: int
    value: int
    scale: float


def _heads(attention: Attention | None) -> _Heads:
    if attention is None:
        return _Heads(1, 1, LANES, LANES, 1.0)
    if isinstance(attention, Latent):
        scale = attention.query**-0.5
        return _Heads(attention.heads, 1, attention.rotated + attention.rank, attention.rank, scale)
    dim = attention.head_dim
    return _Heads(attention.heads, attention.kv_heads, dim, dim, dim**-0.5)
