"""Loads a checkpoint that our own decoder does not know as a decoder by transformers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.decoder.any_decoder import TORCH_ATTENTION, TORCH_ATTENTION_REASON, Runtime
from model_runtime.decoder.hf.decoder import HfDecoder
from model_runtime.decoder.hf.pack import pack
from model_runtime.decoder.hf.read import read_hf_model
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.self_attention import attend, causal_bias
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena

ATTENTION_NAME = "arena"  # of our attention, among those that models of transformers can use
# Arguments of models that do not change the results here; a sliding window comes as a mask.
HARMLESS_ARGUMENTS = frozenset(
    {"dropout", "position_ids", "cache_position", "use_cache", "is_causal", "sliding_window"}
)
OUTPUT_PREFIX = "output_"  # prefix of the arguments that ask for further outputs
CHECKED_TOKENS = 8
FIRST_PASS_TOKENS = 5  # tokens in the first pass
TOLERANCE = 1e-3  # largest difference, in standard deviations of the logits

_bias = lru_cache(1)(causal_bias)  # the same for all layers of a pass


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attend query [1, heads, new, dim] to key and value [1, kv_heads, total, dim]; returns [1, new, heads, dim]."""
    new, total, dim = query.shape[2], key.shape[2], query.shape[3]
    asked = {
        name for name, value in others.items() if value is not None and not name.startswith(OUTPUT_PREFIX)
    } - HARMLESS_ARGUMENTS
    if attention_mask is not None or asked:
        raise ModelError(f"its attention needs {', '.join(sorted(asked)) or 'its own mask'}: use another model")
    bias = _bias(new, total, query.shape[1] // key.shape[1])
    scale = dim**-0.5 if scaling is None else scaling
    return attend(query[0].transpose(0, 1), key[0], value[0], bias, scale).view(1, new, -1, dim), None


def _mask(mask_function: Callable[..., torch.Tensor], q_offset: int, q_length: int, **_: Any) -> torch.Tensor | None:
    """Return None for a causal mask, else a tensor that `_attention` refuses.

    Masks are tried on the pass' last row, since some models ask for masks that none of their layers uses.
    """
    if mask_function is causal_mask_function:
        return None
    last = torch.tensor(q_offset + q_length - 1)
    sees_first, sees_next = (bool(mask_function(0, 0, last, torch.tensor(at))) for at in (0, int(last) + 1))
    return None if sees_first and not sees_next else torch.zeros(0)


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
    cast(Any, AttentionInterface).register(ATTENTION_NAME, _attention)
    cast(Any, AttentionMaskInterface).register(ATTENTION_NAME, _mask)
    model = read_hf_model(folder, "auto", ATTENTION_NAME).eval()
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
    model.set_attn_implementation(ATTENTION_NAME)
    return torch.cat([logits[: FIRST_PASS_TOKENS + 1], logits[-1:]])


def _cached(decoder: HfDecoder, ids: Ids) -> torch.Tensor:
    arena = DenseArena(decoder.config, CHECKED_TOKENS)
    first = decoder.forward(ids[:FIRST_PASS_TOKENS], arena, FIRST_PASS_TOKENS)
    decoder.forward(ids[: CHECKED_TOKENS - FIRST_PASS_TOKENS], arena)
    arena.truncate(FIRST_PASS_TOKENS)
    one = decoder.forward(ids[FIRST_PASS_TOKENS : FIRST_PASS_TOKENS + 1], arena)
    return torch.cat([first, one, decoder.forward(ids[FIRST_PASS_TOKENS + 1 :], arena)])
