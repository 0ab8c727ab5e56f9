"""Whether a model gets over an arena what it gets by itself: the last word on architectures we do not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from model_runtime.arena.arena import Arena
from model_runtime.decoder.hf.attention import ATTENTION_NAME
from model_runtime.decoder.hf.decoder import HfDecoder
from model_runtime.errors import ModelError
from model_runtime.ids import Ids

CHECKED_TOKENS = 8
FIRST_PASS_TOKENS = 5  # tokens of the first pass
TOLERANCE = 1e-3  # of the logits' spread


def check_decoder(decoder: HfDecoder, model: Any) -> None:
    """Compute a few tokens in one go and in pieces, one of them taken back; ModelError where logits differ."""
    ids = (np.arange(CHECKED_TOKENS) * 7919 % decoder.config.vocab).astype(np.int32)
    kind = decoder.config.family
    try:
        alone, cached = _alone(model, ids), _cached(decoder, ids)
    except ModelError as error:
        raise ModelError(f"{kind}: {error}") from None
    except Exception as error:  # each architecture that takes other arguments or modules fails in its own way
        raise ModelError(f"{kind} cannot be computed over an arena ({error!r}): use another model") from error
    if alone.shape != cached.shape or not (alone - cached).abs().max() <= TOLERANCE * alone.std():
        raise ModelError(f"{kind} does not get over an arena what it gets without one: use another model")


@torch.inference_mode()
def _alone(model: Any, ids: Ids) -> torch.Tensor:
    """Logits [FIRST + 2, vocab] after each of the first tokens and the last, by its own attention without a cache."""
    model.set_attn_implementation("eager")
    logits = model(input_ids=torch.as_tensor(ids.astype(np.int64))[None], use_cache=False).logits[0]
    model.set_attn_implementation(ATTENTION_NAME)
    return torch.cat([logits[: FIRST_PASS_TOKENS + 1], logits[-1:]])


def _cached(decoder: HfDecoder, ids: Ids) -> torch.Tensor:
    arena = Arena(decoder.config, CHECKED_TOKENS)
    first = decoder.forward(ids[:FIRST_PASS_TOKENS], arena, FIRST_PASS_TOKENS)
    decoder.forward(ids[: CHECKED_TOKENS - FIRST_PASS_TOKENS], arena)
    arena.truncate(FIRST_PASS_TOKENS)
    one = decoder.forward(ids[FIRST_PASS_TOKENS : FIRST_PASS_TOKENS + 1], arena)
    return torch.cat([first, one, decoder.forward(ids[FIRST_PASS_TOKENS + 1 :], arena)])
