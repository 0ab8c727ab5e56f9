"""A model of transformers as a decoder over arenas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.decoder.any_decoder import CHUNK, Span
from model_runtime.decoder.hf.cache import ArenaCache
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena


class HfDecoder:
    """Computes logits of tokens appended to an arena. Used on the engine thread only.

    Keys in arenas are as the model computed them: whether and how it rotated them is not known here.
    """

    chunk = CHUNK
    rotations = None
    batch_invariant = True
    top_tokens = None

    def __init__(self, config: ModelConfig, model: Any, parameters: int) -> None:
        """Take over a packed model of transformers that uses the attention of `hf.attention`."""
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
