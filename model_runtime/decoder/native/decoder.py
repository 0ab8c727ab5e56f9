"""The same transformer as model_runtime.decoder.decoder's, computed by the compiled part."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.rope import rotations
from model_runtime.checkpoint.weights import Fp32, Weights, as_fp32
from model_runtime.decoder.any_decoder import CHUNK, Span
from model_runtime.decoder.layers import LayerWeights, Norm, Product, fused, head, norm, token_values
from model_runtime.decoder.native import library as c
from model_runtime.decoder.native.memory import WeightMemory
from model_runtime.decoder.quantization import Format, quantized, rounded_to_fp16
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.arena import Arena
from model_runtime.kv.sequence import Quality

MOST_THREADS = 64
MOST_ROWS = 64  # rows of one pass; wider ones are split, to the same bits
ROW_PLACE = np.dtype(
    [
        ("k", np.uintp),
        ("v", np.uintp),
        ("capacity", np.int64),
        ("begin", np.int64),
        ("position", np.int64),
    ]
)


def native_missing(config: ModelConfig) -> str | None:
    """Return why the compiled part cannot run a model here, or None if it can."""
    if config.foreign:
        return f"{config.family} is computed by transformers"
    lib = c.library()
    if isinstance(lib, str):
        return lib
    if not c.instruction_sets():
        return "this CPU has neither AVX2 with FMA and F16C nor ARM's dot products"
    if len(set(config.layers)) > 1:
        return "the model's layers differ"
    head_dim = config.alike.attention.head_dim
    return f"heads of {head_dim} dimensions are no multiple of 16" if head_dim % 16 else None


class NativeDecoder:
    """Computes logits of tokens appended to arenas. Used on the engine thread only; it owns threads of its own."""

    chunk = CHUNK
    batch_invariant = True
    top_tokens = None

    def __init__(
        self, config: ModelConfig, weights: Weights, form: Format, threads: int, instructions: str | None = None
    ) -> None:
        """Prepare the weights as fp16 or int8; `weights` may be dropped afterwards.

        `instructions` are the best that this CPU has, unless a test chooses others.
        """
        self.config = config
        self._embed = weights["model.embed_tokens.weight"]
        self._token_values = token_values(config, weights)  # mapped: rows that no text has are never read
        self._memory = WeightMemory()
        self._arrays: list[npt.NDArray[Any]] = []  # memory that the compiled part points into
        self._positions = config.positions
        self._rope = self._kept(rotations(config.rope, config.alike.attention.head_dim, self._positions))
        lib = c.library()
        assert not isinstance(lib, str) and form in ("fp16", "int8")
        self._library, self._model = lib, self._native_model(weights, form)
        chosen = instructions or c.instruction_sets()[0]
        self._runner = lib.efim_open(ctypes.byref(self._model), min(threads, MOST_THREADS), chosen.encode())
        if not self._runner:
            raise MemoryError("no memory or no threads for the decoder")
        # Not at exit, when another thread may still be in a pass.
        weakref.finalize(self, lib.efim_close, self._runner).atexit = False
        self._x = np.zeros((MOST_ROWS, self._model.padded), dtype=np.float32)

    @property
    def rotations(self) -> npt.NDArray[np.complex64]:
        """Factors of the keys in arenas, [positions, head_dim / 2], a view."""
        return self._rope

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> Fp32:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        return self.forward_spans([Span(ids, arena, rows)])

    def forward_spans(self, spans: Sequence[Span]) -> Fp32:
        """Append to several different arenas in one pass; returns the spans' logits [sum of rows, vocab]."""
        ids = np.concatenate([span.ids for span in spans])
        places = np.concatenate([_row_places(span, self._positions) for span in spans])
        wanted = np.concatenate(list(_logit_rows(spans)))
        logits = np.empty((len(wanted), self._model.head.outputs), dtype=np.float32)
        shared = _shared(spans)
        for start in range(0, len(ids), MOST_ROWS):
            part = slice(start, start + MOST_ROWS)
            self._pass(ids[part], places[part], shared, start, wanted, logits)
        for span in spans:
            span.arena.end_pass(span.ids, span.recomputed)
        return logits[:, : self.config.vocab]

    def _pass(
        self,
        ids: Ids,
        places: npt.NDArray[np.void],
        shared: int,
        start: int,
        wanted: npt.NDArray[np.int64],
        logits: npt.NDArray[np.float32],
    ) -> None:
        first, last = np.searchsorted(wanted, (start, start + len(ids)))
        here = wanted[first:last] - start
        x = self._x[: len(ids)]
        x[:, self.config.hidden :] = 0  # an earlier pass may have left NaN there
        x[:, : self.config.hidden] = as_fp32(self._embed[ids])
        if self.config.embedding_scale != 1:
            x[:, : self.config.hidden] *= self.config.embedding_scale
        values = None if self._token_values is None else as_fp32(self._token_values[ids])
        self._library.efim_pass(
            self._runner, len(ids), shared, places.ctypes.data, self._x.ctypes.data,
            None if values is None else values.ctypes.data, len(here), here.ctypes.data, logits[first:].ctypes.data,
        )  # fmt: skip

    def _native_model(self, weights: Weights, form: Format) -> c.NativeModel:
        config, count = self.config, len(self.config.layers)
        attention, mlp = config.alike.attention, config.alike.mlp
        layers = (c.NativeLayer * count)(*(self._layer(fused(config, weights, i), form) for i in range(count)))
        return c.NativeModel(
            layers, self._norm(norm(config, weights, "model.norm")), self._rope.ctypes.data,
            self._matrix(Product(head(config, weights), None), form), count, config.hidden,
            _round_up(config.hidden, 64), attention.heads, attention.kv_heads, attention.head_dim, mlp.intermediate,
            form == "int8", mlp.gated, mlp.activation == "gelu_tanh", config.norm_eps,
        )  # fmt: skip

    def _layer(self, parts: LayerWeights, form: Format) -> c.NativeLayer:
        return c.NativeLayer(
            self._norm(parts.norm_in), self._norm(parts.norm_mlp),
            *(0 if part is None else self._keep(part) for part in (parts.head_norms, parts.head_gates)),
            self._matrix(parts.qkv, form), self._matrix(parts.out, form),
            self._matrix(parts.up, form), self._matrix(parts.down, form),
        )  # fmt: skip

    def _norm(self, norm: Norm[Fp32]) -> c.NativeNorm:
        weight, bias = norm
        padded = _round_up(len(weight), 64)
        return c.NativeNorm(self._vector(weight, padded), 0 if bias is None else self._vector(bias, padded))

    def _matrix(self, product: Product, form: Format) -> c.NativeMatrix:
        weight, bias = product
        columns = weight.shape[1]
        outputs, inputs = _round_up(len(weight), 16), _round_up(columns, 64)
        added = 0 if bias is None else self._vector(bias, outputs)
        if form == "int8":
            whole, scale = quantized(weight)
            scales = self._vector(scale[:, 0], outputs)
        else:
            whole, scales = rounded_to_fp16(weight), 0
        stored = self._memory.zeros((outputs, inputs), whole.dtype)
        stored[: len(whole), :columns] = whole
        self._arrays.append(stored)
        sums = 0
        if form == "int8":
            sums = self._keep(stored.sum(1, dtype=np.int32) * np.int32(128))
        _interleave(stored, 4 if form == "int8" else 1)
        return c.NativeMatrix(stored.ctypes.data, scales, sums, added, outputs, inputs)

    def _vector(self, values: Fp32, length: int) -> int:
        return self._keep(np.pad(values, (0, length - len(values))))

    def _keep(self, array: npt.NDArray[Any]) -> int:
        return self._kept(array).ctypes.data

    def _kept(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        kept = self._memory.zeros(array.shape, array.dtype)
        kept[...] = array
        self._arrays.append(kept)
        return kept


def _interleave(weights: npt.NDArray[np.generic], inputs: int) -> None:
    """Lay weights [out, in] out as [out / 16, in / inputs, 16, inputs], in place."""
    rows = len(weights)
    lanes = weights.reshape(rows // 16, 16, -1, inputs).transpose(0, 2, 1, 3)
    weights[:] = np.ascontiguousarray(lanes).reshape(weights.shape)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _row_places(span: Span, positions: int) -> npt.NDArray[np.void]:
    arena, tokens = span.arena, span.arena.places_of_pass(len(span.ids), span.recomputed)
    if (
        len(tokens) and arena.excerpt_rows + tokens[-1] >= positions
    ):  # the compiled part would read past the rotations' end
        raise IndexError(f"{positions} rows for excerpts and tokens have no place for token {tokens[-1]}")
    places = np.empty(len(tokens), ROW_PLACE)
    places["k"], places["v"] = arena.k.ctypes.data, arena.v.ctypes.data
    places["capacity"] = arena.excerpt_rows + arena.capacity
    places["begin"] = arena.begins(tokens)
    places["position"] = tokens + arena.excerpt_rows
    return places


def _shared(spans: Sequence[Span]) -> int:
    """Count the rows at the start of all spans' arenas with the same keys and values: no row changes a bit of them.

    All rows must see them from the same one on. Those of one arena are not counted: its rows are runs, which read a
    key once without that.
    """
    first, *others = (span.arena for span in spans)
    if not others:
        return 0
    excerpts = first.excerpts
    firsts = [span.arena.length if span.recomputed is None else int(span.recomputed[0]) for span in spans]
    if excerpts.texts and min(firsts) < excerpts.before_excerpts:
        return 0
    if excerpts.texts and any(span.arena.rows.seen < Quality.EXACT for span in spans):
        return 0
    if any(arena.excerpts != excerpts for arena in others):
        return 0
    counts = [common_prefix(first.ids, arena.ids) for arena in others]
    return first.excerpt_rows + min(
        [*counts, *firsts, *(span.arena.rows.first_below(Quality.EXACT) for span in spans)]
    )


def _logit_rows(spans: Sequence[Span]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the rows of the pass whose logits are asked for."""
    end = 0
    for span in spans:
        end += len(span.ids)
        yield np.arange(end - span.rows, end)
