"""Checks that a model computes the same in an arena as by itself: the final test of unknown architectures."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from model_runtime.decoder.hf.attention import ATTENTION_NAME
from model_runtime.decoder.hf.decoder import HfDecoder
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena

CHECKED_TOKENS = 8
FIRST_PASS_TOKENS = 5  # tokens in the first pass
TOLERANCE = 1e-3  # largest difference, in standard deviations of the logits


def check_decoder(decoder: HfDecoder, model: Any) -> None:
    """Compute a few tokens in one pass and in pieces, with a truncation between; ModelError if logits differ."""
    ids = (np.arange(CHECKED_TOKENS) * 7919 % decoder.config.vocab).astype(np.int32)
    kind = decoder.config.family
    try:
        alone, cached = _alone(model, ids), _cached(decoder, ids)
    except ModelError as error:
        raise ModelError(f"{kind}: {error}") from None
    except Exception as error:  # each architecture with other arguments or modules fails in its own way
        raise ModelError(f"{kind} cannot be computed over an arena ({error!r}): use another model") from error
    if alone.shape != cached.shape or not (alone - cached).abs().max() <= TOLERANCE * alone.std():
        raise ModelError(f"{kind} computes something else over an arena than without one: use another model")


@torch.inference_mode()
def _alone(model: Any, ids: Ids) -> torch.Tensor:
    """Return logits [FIRST_PASS_TOKENS + 2, vocab] by the model's own attention, without a cache."""
    model.set_attn_implementation("eager")
    logits = model(input_ids=torch.as_tensor(ids.astype(np.int64))[None], use_cache=False).logits[0]
    model.set_attn_implementation(ATTENTION_NAME)
    return torch.cat([logits[: FIRST_PASS_TOKENS + 1], logits[-1:]])


def _cached(decoder: HfDecoder, ids: Ids) -> torch.Tensor:
    arena = DenseArena(decoder.config, CHECKED_TOKENS)
    first = decoder.forward(ids[:FIRST_PASS_TOKENS], arena, FIRST_PASS_TOKENS)
    decoder.forward(ids[: CHECKED_TOKENS - FIRST_PASS_TOKENS], arena)
    arena.truncate(FIRST_PASS_TOKENS)
    one = decoder.forward(ids[FIRST_PASS_TOKENS : FIRST_PASS_TOKENS + 1], arena)
    return torch.cat([first, one, decoder.forward(ids[FIRST_PASS_TOKENS + 1 :], arena)])
