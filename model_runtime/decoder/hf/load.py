"""Loads a checkpoint that our own decoder does not know as a decoder by transformers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.decoder.any_decoder import TORCH_ATTENTION, TORCH_ATTENTION_REASON, Runtime
from model_runtime.decoder.hf import attention
from model_runtime.decoder.hf.decoder import HfDecoder
from model_runtime.decoder.hf.pack import pack
from model_runtime.decoder.hf.read import read_hf_model
from model_runtime.decoder.quantization import Format
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena

CHECKED_TOKENS = 8
FIRST_PASS_TOKENS = 5  # tokens in the first pass
TOLERANCE = 1e-3  # largest difference, in standard deviations of the logits


def load_with_transformers(folder: Path, config: ModelConfig, capacity: int, arenas: int, form: Format) -> Runtime:
    """Load a model that only transformers knows, on the CPU."""
    decoder = load_hf_decoder(folder, config, form)
    return Runtime(
        parameters=decoder.parameters,
        decoder=decoder,
        arena=lambda: DenseArena(config, capacity),
        arenas=arenas,
        weights=form,
        kv=kv_form(folder, form),
        name="transformers",
        reason=f"our own decoder does not know {config.family}",
        attention=TORCH_ATTENTION,
        attention_reason=TORCH_ATTENTION_REASON,
    )


def load_hf_decoder(folder: Path, config: ModelConfig, form: Format) -> HfDecoder:
    """Read, pack and check a model on the CPU; ModelError names the fault."""
    attention.register()
    model = read_hf_model(folder, "auto", attention.ATTENTION_NAME).eval()
    parameters = model.num_parameters()
    pack(model, form)
    decoder = HfDecoder(config, model, parameters)
    check_decoder(decoder, model)
    return decoder


def kv_form(folder: Path, form: Format) -> str:
    """Return the values that the fingerprint must cover in addition to the incomplete `ModelConfig`."""
    digest = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    return f"{form}, transformers {transformers.__version__}, {digest}"


def check_decoder(decoder: HfDecoder, model: Any) -> None:
    """Compute a few tokens in one pass and in pieces, with a truncation between; ModelError if logits differ.

    That is the final test of unknown architectures.
    """
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
    model.set_attn_implementation(attention.ATTENTION_NAME)
    return torch.cat([logits[: FIRST_PASS_TOKENS + 1], logits[-1:]])


def _cached(decoder: HfDecoder, ids: Ids) -> torch.Tensor:
    arena = DenseArena(decoder.config, CHECKED_TOKENS)
    first = decoder.forward(ids[:FIRST_PASS_TOKENS], arena, FIRST_PASS_TOKENS)
    decoder.forward(ids[: CHECKED_TOKENS - FIRST_PASS_TOKENS], arena)
    arena.truncate(FIRST_PASS_TOKENS)
    one = decoder.forward(ids[FIRST_PASS_TOKENS : FIRST_PASS_TOKENS + 1], arena)
    return torch.cat([first, one, decoder.forward(ids[FIRST_PASS_TOKENS + 1 :], arena)])
