"""Loads a checkpoint that our own decoder does not know as a model of transformers, a decoder over arenas."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache
from transformers.masking_utils import causal_mask_function

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.decoder.any_decoder import CHUNK, TORCH_ATTENTION, TORCH_ATTENTION_REASON, Runtime, Span
from model_runtime.decoder.hf.pack import pack
from model_runtime.decoder.hf.read import read_hf_model
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.self_attention import attend, causal_bias
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena

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
        """Take over a packed model of transformers that uses our attention."""
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
