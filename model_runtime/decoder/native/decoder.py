"""The same transformer as model_runtime.decoder.decoder's, computed by the compiled part."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Experts, Latent, LayerSpec, Recurrence
from model_runtime.checkpoint.tensor_shapes import EMBEDDING
from model_runtime.checkpoint.weights import BF16, Fp32, StoredWeights, Weights, as_fp32
from model_runtime.decoder.any_decoder import CHUNK, Rotations, Span, parts_of
from model_runtime.decoder.native import library as c
from model_runtime.decoder.native.held_experts import ExpertKeeper
from model_runtime.decoder.native.packing import FORMS
from model_runtime.decoder.native.weights import NativeWeights
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.weights.layer import token_values
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import SLIDING_PASS, KvLayout
from model_runtime.kv.sequence import Quality

MOST_THREADS = 64
MOST_EXPERTS, MOST_TAPS = 1024, 8  # of pass.h
MOST_ROWS = 64  # rows of one pass; wider ones are split, to the same bits
# As pass.h has them: what an arena holds of each kind of layers, and where a row is.
HELD = np.dtype([("k", np.uintp), ("v", np.uintp), ("capacity", np.int64), ("base", np.int64)])
ROW_PLACE = np.dtype(
    [("held", np.uintp), ("begin", np.int64), ("position", np.int64), ("state", np.uintp), ("keep", np.uintp)]
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
    if config.altup is not None or config.scaled_residuals:
        return f"it has no layers of {config.family}"
    if not config.are_alike:
        return "the model's layers differ"
    if any(isinstance(layer.mlp, Experts) and layer.mlp.count > MOST_EXPERTS for layer in config.layers):
        return f"a layer has more than {MOST_EXPERTS} experts"
    if any(state.kernel > MOST_TAPS for state in config.states):
        return f"a convolution reads more than {MOST_TAPS} tokens"
    sizes = {size: what for layer in config.layers for what, size in _lane_sizes(layer)}
    odd = [f"{what} of {size} numbers are no multiple of 16" for size, what in sizes.items() if size % 16]
    return odd[0] if odd else None


def _lane_sizes(layer: LayerSpec) -> Iterator[tuple[str, int]]:
    """Yield the arrays that are computed in whole lanes, with their numbers."""
    a, state = layer.attention, layer.state
    if isinstance(a, Latent):
        yield from (("latents", a.rank), ("rotated keys", a.rotated), ("queries", a.query_rank))
    elif a is not None:
        yield "heads", a.head_dim
    if state is not None:
        yield "channels", state.channels
    if isinstance(state, Recurrence):
        yield from (("values", state.value), ("norms", state.normed))
        if state.rule == "correct":
            yield "keys", state.key


class NativeDecoder:
    """Computes logits of tokens appended to arenas. Used on the engine thread only; it owns its threads."""

    chunk = CHUNK
    batch_invariant = True
    top_tokens = None

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        form: Format,
        threads: int,
        instructions: str | None = None,
        keeper: ExpertKeeper | None = None,
    ) -> None:
        """Prepare the weights in a compiled format; `weights` may be dropped afterwards.

        `instructions` are the best that this CPU has, unless a test chooses others. With a `keeper` memory holds
        some experts alone.
        """
        self.config = config
        is_stored = isinstance(weights, StoredWeights)  # mapped, but of compact weights
        self._embed = weights.table(EMBEDDING) if is_stored else weights[EMBEDDING]
        self._token_values = token_values(config, weights)  # the same
        self._layout, self._positions = KvLayout.of(config), config.positions
        lib = c.library()
        assert not isinstance(lib, str) and form in FORMS
        self._library, self._weights = lib, NativeWeights(config, self._layout, weights, form, keeper)
        self._model = self._weights.model
        chosen = instructions or c.instruction_sets()[0]
        self._runner = lib.efim_open(ctypes.byref(self._model), min(threads, MOST_THREADS), chosen.encode())
        if not self._runner:
            raise MemoryError("no memory or no threads for the decoder")
        # Not at exit, when another thread may still be in a pass.
        weakref.finalize(self, lib.efim_close, self._runner).atexit = False
        self._x = np.zeros((MOST_ROWS, self._model.padded), dtype=np.float32)
        # What each arena holds, and where that is written: addresses stay, and numpy is slow to tell them.
        self._held = weakref.WeakKeyDictionary[Arena, tuple[npt.NDArray[np.void], int]]()

    @property
    def rotations(self) -> Rotations:
        """Factors of the keys in arenas, [positions, head_dim / 2] for each of the config's ropes, views."""
        return tuple(self._weights.ropes.values())

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> Fp32:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        return self.forward_spans([Span(ids, arena, rows)])

    def forward_spans(self, spans: Sequence[Span]) -> Fp32:
        """Append to several different arenas in one pass; returns the spans' logits [sum of rows, vocab]."""
        if self._layout.window and any(len(span.ids) > SLIDING_PASS for span in spans):
            parts = [part for span in spans for part in parts_of(span, SLIDING_PASS)]
            return np.concatenate([self.forward_spans([part]) for part in parts])
        tokens = list[Ids]()
        for span in spans:  # before any arena begins the pass
            tokens.append(_tokens_of(span, self._positions))
        places = np.concatenate([*map(self._places_of, spans, tokens)])
        ids, wanted = _rows_of(spans)
        logits = np.empty((len(wanted), self._model.head.outputs), dtype=np.float32)
        shared = _shared(spans) if len(spans) > 1 else 0
        for start in range(0, len(ids), MOST_ROWS):
            part = slice(start, start + MOST_ROWS)
            self._pass(ids[part], places[part], shared, start, wanted, logits)
        for span in spans:
            span.arena.end_pass(span.ids, span.recomputed)
        return self._capped(logits[:, : self.config.vocab])

    def _places_of(self, span: Span, tokens: Ids) -> npt.NDArray[np.void]:
        """Return where the rows of a span are, and begin a pass with that."""
        arena = span.arena
        kept = arena.begin_pass(len(span.ids), span.rows) if span.recomputed is None else ()
        places = np.zeros(len(tokens), ROW_PLACE)
        places["held"] = self._held_address(arena)
        places["begin"] = arena.begins(tokens)
        places["position"] = tokens + arena.excerpt_rows
        if arena.states is not None:
            places["state"] = arena.states.ctypes.data
            for each in kept:
                places["keep"][each.tokens - 1] = arena.states[1 + each.slot].ctypes.data
        return places

    def _held_address(self, arena: Arena) -> int:
        """Return where it is written for the compiled part what an arena holds of each kind of layers."""
        if (known := self._held.get(arena)) is None:
            keys_values = zip(arena.planes[::2], arena.planes[1::2], strict=True)
            held = np.array([(k.ctypes.data, v.ctypes.data, k.shape[2], 0) for k, v in keys_values], HELD)
            known = self._held[arena] = held, held.ctypes.data
        held, address = known
        if self._layout.window:
            held["base"] = [arena.base if plane.window else 0 for plane in arena.layout.planes[::2]]
        return address

    def _capped(self, logits: Fp32) -> Fp32:
        cap = self.config.logits_cap
        return np.tanh(logits / cap) * np.float32(cap) if cap else logits

    def _pass(
        self,
        ids: Ids,
        places: npt.NDArray[np.void],
        shared: int,
        start: int,
        wanted: npt.NDArray[np.int64],
        logits: npt.NDArray[np.float32],
    ) -> None:
        first, last = wanted.searchsorted((start, start + len(ids)))
        here = wanted[first:last] - start
        x = self._x[: len(ids)]
        x[:, self.config.hidden :] = 0  # an earlier pass may have left NaN there
        x[:, : self.config.hidden] = _widened(self._embed.take(ids, axis=0))
        if self.config.embedding_scale != 1:
            x[:, : self.config.hidden] *= self.config.embedding_scale
        values = None if self._token_values is None else _widened(self._token_values.take(ids, axis=0))
        self._library.efim_pass(
            self._runner, len(ids), shared, places.ctypes.data, self._x.ctypes.data,
            None if values is None else values.ctypes.data, len(here), here.ctypes.data, logits[first:].ctypes.data,
        )  # fmt: skip
        if self._weights.held is not None:
            self._weights.held.raise_error()


def _tokens_of(span: Span, positions: int) -> Ids:
    """Return the places of a span's tokens; IndexError if one has no room, or no rotation.

    The compiled part would read past the end of rotations.
    """
    arena, tokens = span.arena, span.arena.places_of_pass(len(span.ids), span.recomputed)
    if len(tokens) and arena.excerpt_rows + tokens[-1] >= positions:
        raise IndexError(f"{positions} rows for excerpts and tokens have no place for token {tokens[-1]}")
    return tokens


def _shared(spans: Sequence[Span]) -> int:
    """Count the rows at the start of all spans' arenas with the same keys and values: no row changes a bit of them.

    All rows must see them from the same row on. Rows of one arena need no counting: they are runs, which read a key
    once anyway.
    """
    first, *others = (span.arena for span in spans)
    excerpts = first.apart
    firsts = [span.arena.length if span.recomputed is None else int(span.recomputed[0]) for span in spans]
    if excerpts.texts and min(firsts) < excerpts.before_excerpts:
        return 0
    if excerpts.texts and any(span.arena.rows.seen < Quality.EXACT for span in spans):
        return 0
    if any(arena.apart != excerpts for arena in others):
        return 0
    counts = [common_prefix(first.ids, arena.ids) for arena in others]
    return first.excerpt_rows + min(
        [*counts, *firsts, *(span.arena.rows.first_below(Quality.EXACT) for span in spans)]
    )


def _rows_of(spans: Sequence[Span]) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Return the tokens of the pass, one a row, and the rows whose logits are asked for."""
    ids, wanted, end = list[Ids](), list[npt.NDArray[np.int64]](), 0
    for span in spans:
        end += len(span.ids)
        ids.append(span.ids)
        wanted.append(np.arange(end - span.rows, end))
    return np.concatenate(ids), np.concatenate(wanted)


def _widened(rows: npt.NDArray[Any]) -> Fp32:
    """Return rows of a table as fp32."""
    return as_fp32(rows) if rows.dtype == BF16 else rows.astype(np.float32, copy=False)
