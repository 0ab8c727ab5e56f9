"""Runs llama.cpp, to compare with our decoder: one sequence, token ids in, logits out."""

from __future__ import annotations

import ctypes
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from model_runtime.ids import Ids, common_prefix

SEQUENCE = 0
c: Any = import_module("llama_cpp")  # types are checked without it, too


@c.llama_log_callback
def _no_log(level: int, text: bytes, data: object) -> None:
    pass


class Weights:
    """A GGUF file, loaded; several contexts may compute with it."""

    def __init__(self, path: Path) -> None:
        """Load a file; RuntimeError where llama.cpp refuses it."""
        c.llama_log_set(_no_log, ctypes.c_void_p(0))
        c.llama_backend_init()
        self.model = c.llama_model_load_from_file(str(path).encode(), c.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path.name}: install the pinned version of llama-cpp-python")
        weakref.finalize(self, c.llama_model_free, self.model)


class Llama:
    """A model with keys and values (fp16) of one sequence, as llama.cpp's server keeps them in a slot."""

    def __init__(self, weights: Weights, threads: int, capacity: int, flash: bool) -> None:
        """`capacity` is in tokens, and also the most of one pass; `flash` is the attention. MemoryError."""
        self._weights = weights  # must outlive the context
        self._context = c.llama_init_from_model(weights.model, _parameters(threads, capacity, flash))
        if not self._context:
            raise MemoryError(f"llama.cpp has no memory for {capacity} tokens")
        self._memory = c.llama_get_memory(self._context)
        self._vocab = c.llama_vocab_n_tokens(c.llama_model_get_vocab(weights.model))
        self._batch = c.llama_batch_init(capacity, 0, 1)
        weakref.finalize(self, _free, self._context, self._batch)
        self._tokens, self._positions, self._wanted = self._arrays(capacity)
        self.ids: Ids = np.zeros(0, dtype=np.int32)

    def forward(self, ids: Ids) -> npt.NDArray[np.float32]:
        """Append ids and return the logits [vocab] that follow the last; the next call overwrites them."""
        new, start = len(ids), len(self.ids)
        self._batch.n_tokens = new
        self._tokens[:new] = ids
        self._positions[:new] = np.arange(start, start + new)
        self._wanted[:new] = 0
        self._wanted[new - 1] = 1
        if code := c.llama_decode(self._context, self._batch):
            raise RuntimeError(f"llama_decode failed with {code}: {start} + {new} tokens may be too many")
        self.ids = np.concatenate((self.ids, ids))
        return np.ctypeslib.as_array(c.llama_get_logits_ith(self._context, -1), (self._vocab,))

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        c.llama_memory_seq_rm(self._memory, SEQUENCE, length, -1)
        self.ids = self.ids[:length]

    def answer(self, ids: Ids, least_chunk: int = 0) -> int:
        """Compute the logits that follow a prompt, except for the beginning that it shares with the last prompt.

        Runs of at least `least_chunk` tokens that the last prompt has elsewhere are moved instead of computed, as the
        server's --cache-reuse does; 0 forbids it. Returns the number of tokens that were computed, at least one.
        """
        shared = common_prefix(self.ids, ids)
        kept = min(self._move_runs(ids, shared, least_chunk) if least_chunk else shared, len(ids) - 1)
        self.truncate(kept)
        self.forward(ids[kept:])
        return len(ids) - kept

    def _move_runs(self, ids: Ids, shared: int, least: int) -> int:
        """Move each run of tokens that is in both prompts, in order, to its new place; return the length held then.

        Keys and values do not match the new text: they were computed behind the tokens that stood before them then.
        """
        held, at = shared, shared  # tokens of the new prompt that are in place; where the old one is looked at
        while held < len(ids) and len(places := np.flatnonzero(self.ids[at:] == ids[held])):
            at += int(places[0])
            run = common_prefix(self.ids[at:], ids[held:])
            if run < least:
                at += 1
                continue
            c.llama_memory_seq_rm(self._memory, SEQUENCE, held, at)
            c.llama_memory_seq_add(self._memory, SEQUENCE, at, at + run, held - at)
            held, at = held + run, at + run
        self.ids = ids[:held]
        return held

    def _arrays(self, capacity: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int8]]:
        """The batch's memory of tokens, positions, and whose logits are wanted; all are of one sequence."""
        batch = self._batch
        for i in range(capacity):
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, SEQUENCE
        tokens, positions, wanted = (
            np.ctypeslib.as_array(each, (capacity,)) for each in (batch.token, batch.pos, batch.logits)
        )
        return tokens, positions, wanted


def _free(context: Any, batch: Any) -> None:
    c.llama_batch_free(batch)
    c.llama_free(context)


def _parameters(threads: int, capacity: int, flash: bool) -> Any:
    parameters = c.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = capacity
    parameters.n_threads = parameters.n_threads_batch = threads
    parameters.flash_attn_type = c.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else c.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return parameters
