"""A model of transformers as a decoder over arenas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.decoder.any_decoder import CHUNK, Span
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena


class ArenaCache(Cache):
    """Writes a pass' keys and values after those that an arena holds; the arena grows once the pass is over."""

    def __init__(self, arena: Arena) -> None:
        """Serve one pass."""
        super().__init__(layers=[])
        self._arena = arena
        self._keys, self._values = torch.as_tensor(arena.k), torch.as_tensor(arena.v)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values [1, kv_heads, new, dim]; returns views of all [1, kv_heads, total, dim]."""
        start = self._arena.length
        end = start + key_states.shape[2]
        of_layer = self._keys[layer_idx : layer_idx + 1], self._values[layer_idx : layer_idx + 1]
        for kept, new in zip(of_layer, (key_states, value_states), strict=True):
            if kept[:, :, start:end].shape != new.shape:
                shapes = f"{tuple(new.shape)} instead of {tuple(kept[:, :, start:end].shape)}"
                raise ModelError(f"keys or values of layer {layer_idx} have the shape {shapes}: use another model")
            kept[:, :, start:end] = new
        return of_layer[0][:, :, :end], of_layer[1][:, :, :end]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of tokens before the pass."""
        return self._arena.length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the number of keys that the pass sees, and where they begin."""
        return self._arena.length + query_length, 0

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """Return the capacity in tokens."""
        return self._arena.capacity


class HfDecoder:
    """Computes logits of tokens appended to an arena. Used on the engine thread only.

    Keys in arenas are as the model computed them: whether and how it rotated them is not known here.
    """

    chunk = CHUNK
    rotations = None
    batch_invariant = True
    top_tokens = None

    def __init__(self, config: ModelConfig, model: Any, parameters: int) -> None:
        """Take over a packed model of transformers that uses the attention of `hf.load`."""
        self.config, self.parameters = config, parameters
        self._model = model

    @torch.inference_mode()
    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        row = torch.as_tensor(ids.astype(np.int64))[None]
        cache = ArenaCache(arena)
        logits = self._model(input_ids=row, past_key_values=cache, use_cache=True, logits_to_keep=rows).logits
        arena.append(ids)
        return logits[0]

    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        """Append to several arenas, one after another; returns the spans' logits [sum of rows, vocab]."""
        if any(span.recomputed is not None for span in spans):
            raise ModelError("transformers cannot compute tokens again in place: use a model that our decoder knows")
        return torch.cat([self.forward(span.ids, span.arena, span.rows) for span in spans])
