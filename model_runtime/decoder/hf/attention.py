"""Our attention under a name that transformers' models can use; whatever it does not compute is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function

from model_runtime.decoder.self_attention import attend, causal_bias
from model_runtime.errors import ModelError

ATTENTION_NAME = "arena"
# Arguments of models that do not change the results here; a sliding window comes as a mask.
HARMLESS_ARGUMENTS = frozenset(
    {"dropout", "position_ids", "cache_position", "use_cache", "is_causal", "sliding_window"}
)
OUTPUT_PREFIX = "output_"  # prefix of the arguments that ask for further outputs

_bias = lru_cache(1)(causal_bias)  # the same for all layers of a pass


def register() -> None:
    """Register the attention with transformers."""
    cast(Any, AttentionInterface).register(ATTENTION_NAME, _attention)
    cast(Any, AttentionMaskInterface).register(ATTENTION_NAME, _mask)


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
