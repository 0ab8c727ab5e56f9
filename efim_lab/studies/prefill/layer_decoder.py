"""The compiled decoder, a layer at a time: each layer is opened as a separate model with the same weights."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from efim_lab.gate.errors import WorkError
from efim_lab.studies.prefill.measure import check_attends_to_all
from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Fp32, Weights, as_fp32
from model_runtime.decoder.native import library as c
from model_runtime.decoder.native.decoder import HELD, MOST_ROWS, ROW_PLACE, native_missing
from model_runtime.decoder.native.weights import NativeWeights
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.weights.layer import token_values
from model_runtime.ids import Ids
from model_runtime.kv.layout import KvLayout

NEVER = 1  # of a model of one layer: no rows are left out behind it
Planes = Sequence[Fp32]  # of an arena: [layers, kv_heads, tokens, width]


def check_layers(config: ModelConfig) -> None:
    """Raise WorkError if a model cannot be computed a layer at a time."""
    check_attends_to_all(config)
    if missing := native_missing(config):
        raise WorkError(f"the compiled decoder cannot run the model: {missing}")
    if config.first_early is not None or config.excerpt_rows:
        raise WorkError("the model has early keys or isolated excerpts: use a model without")


class LayerDecoder:
    """Computes rows of a prompt layer by layer, to the bits of NativeDecoder. Used by one thread; owns others."""

    def __init__(self, config: ModelConfig, weights: Weights, form: Format, planes: Planes, threads: int = 1) -> None:
        """Prepare the weights, to write keys and values into `planes`."""
        self.config, self._planes = config, planes
        self._embed, self._token_values = weights["model.embed_tokens.weight"], token_values(config, weights)
        self._weights = NativeWeights(config, KvLayout.of(config), weights, form)
        lib = c.library()
        assert not isinstance(lib, str)
        self._library, self._whole = lib, self._weights.model
        self._padded = int(self._whole.padded)
        self._models = [self._model(index) for index in range(len(config.layers))]
        name = c.instruction_sets()[0].encode()
        self._runners = [lib.efim_open(ctypes.byref(model), threads, name) for model in self._models]
        if not all(self._runners):
            raise MemoryError("no memory or no threads for the decoder")
        for runner in self._runners:
            weakref.finalize(self, lib.efim_close, runner)
        keys_values = zip(planes[::2], planes[1::2], strict=True)
        self._held = np.array([(k.ctypes.data, v.ctypes.data, k.shape[2], 0) for k, v in keys_values], HELD)

    def embedded(self, ids: Ids) -> Fp32:
        """Return what goes into the first layer, [n, width]."""
        x = np.zeros((len(ids), self._padded), np.float32)
        x[:, : self.config.hidden] = as_fp32(self._embed.take(ids, axis=0))
        if self.config.embedding_scale != 1:
            x[:, : self.config.hidden] *= self.config.embedding_scale
        return x

    def layer(self, index: int, ids: Ids, x: Fp32, start: int) -> None:
        """Take rows x [n, width] of the tokens from `start` on through a layer but the last, in place."""
        for at in range(0, len(ids), MOST_ROWS):
            part = slice(at, at + MOST_ROWS)
            rows = np.arange(len(ids[part]))
            self._pass(index, ids[part], x[part], start + at, rows, np.empty((len(rows), 0), np.float32))

    def last_layer(self, ids: Ids, x: Fp32, start: int, is_wanted: bool) -> Fp32:
        """Take rows through the last layer; return the logits after the last one [1, vocab], or none [0, vocab]."""
        logits = np.empty((int(is_wanted), self._whole.head.outputs), np.float32)
        for at in range(0, len(ids), MOST_ROWS):
            part = slice(at, at + MOST_ROWS)
            count = len(ids[part])
            wanted = np.arange(count - 1, count) if is_wanted and at + count == len(ids) else np.arange(0)
            self._pass(len(self._models) - 1, ids[part], x[part], start + at, wanted, logits)
        logits = logits[:, : self.config.vocab]
        cap = self.config.logits_cap
        return np.tanh(logits / cap) * np.float32(cap) if cap else logits

    def _model(self, index: int) -> c.NativeModel:
        """Return a model of one layer, which ends where the next one begins; the last one has the head as well."""
        last = len(self.config.layers) - 1
        model = c.NativeModel.from_buffer_copy(self._whole)
        model.layers, model.layer_count = ctypes.pointer(self._whole.layers[index]), 1
        model.leaves = 0 if index == last == self._whole.leaves else NEVER
        if index < last:
            model.head.outputs = 0
        return model

    def _pass(
        self,
        index: int,
        ids: Ids,
        x: Fp32,
        start: int,
        wanted: npt.NDArray[np.int64],
        logits: npt.NDArray[np.float32],
    ) -> None:
        """Take rows through one layer; those that are wanted have its sum, and logits if it is the last."""
        places = np.zeros(len(ids), ROW_PLACE)
        places["held"], places["position"] = self._held.ctypes.data, np.arange(start, start + len(ids))
        values = self._token_values
        own = None if values is None else self._own_values(values.take(ids, axis=0), index)
        self._library.efim_pass(
            self._runners[index], len(ids), 0, places.ctypes.data, x.ctypes.data,
            None if own is None else own.ctypes.data, len(wanted), wanted.ctypes.data, logits.ctypes.data,
        )  # fmt: skip

    def _own_values(self, values: npt.NDArray[np.generic], index: int) -> Fp32:
        """Return what a layer adds to the values of tokens, of what all layers add [n, ...]."""
        return np.ascontiguousarray(as_fp32(values.reshape(len(values), len(self._models), -1)[:, index]))
