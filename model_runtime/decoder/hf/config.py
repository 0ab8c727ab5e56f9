"""Reads a checkpoint's configuration by transformers: the fields that arenas and prompts need."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from model_runtime.checkpoint.config import ModelConfig, refuse_excerpts
from model_runtime.checkpoint.families.fields import Fields, refuse_quantized
from model_runtime.checkpoint.families.layer_spec import Dense, Full, LayerSpec
from model_runtime.decoder.hf.pack import count_unpacked
from model_runtime.decoder.hf.read import first_line, read_hf_config
from model_runtime.errors import ModelError

SHAPE_FIELDS = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("max_position_embeddings", "eos_token_id"),
)
NEEDED_FIELDS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")


def hf_config(folder: Path) -> ModelConfig:
    """Return the shape of a model that transformers computes, without the fields of our own decoder.

    ModelError if its configuration shows that it cannot be computed over an arena.
    """
    found = read_hf_config(folder)
    try:
        return _shape(found)
    except ModelError:
        raise
    except Exception as error:  # some configurations compute their fields, and fail in their own ways
        what = f"the configuration of {found.model_type!r} ({first_line(error)})"
        raise ModelError(f"transformers cannot tell the shape of {what}: use another model") from error


def _shape(found: Any) -> ModelConfig:
    _refuse(found)
    refuse_excerpts(found.to_dict(), "transformers")
    if missing := [name for name in NEEDED_FIELDS if getattr(found, name, None) in (None, -1)]:
        raise ModelError(f"the configuration of {found.model_type!r} has no {missing[0]}: use another model")
    fields = Fields(
        {name: getattr(found, name, None) for name in SHAPE_FIELDS}
    )  # transformers translates each family's names
    heads, hidden = fields.size("num_attention_heads"), fields.size("hidden_size")
    attention = Full(
        heads,
        kv_heads=fields.size("num_key_value_heads", heads),
        head_dim=fields.size("head_dim", max(1, hidden // heads)),
    )
    return ModelConfig(
        family=found.model_type,
        vocab=fields.size("vocab_size"),
        hidden=hidden,
        layers=(LayerSpec(attention, Dense(intermediate=0)),) * fields.size("num_hidden_layers"),
        norm_eps=0.0,
        context=min([fields.size("max_position_embeddings"), *_bounds(found)]),
        tied=found.tie_word_embeddings,
        end_ids=fields.ids("eos_token_id"),
        foreign=True,
    )


def hf_size(folder: Path) -> tuple[int, int, int]:
    """Count the parameters of the model, of its largest matrix, and of unpacked tensors (experts in one tensor).

    Needs `config.json` only, and allocates no weights.
    """
    try:
        with torch.device("meta"):
            model = cast(Any, AutoModelForCausalLM).from_config(read_hf_config(folder), trust_remote_code=False)
    except Exception as error:  # an unknown field fails wherever it is used
        raise ModelError(f"transformers cannot build the model of {folder} ({error!r}): use another model") from error
    sizes = [parameter.numel() for parameter in model.parameters()]
    return sum(sizes), max(sizes), count_unpacked(model)


def _refuse(found: Any) -> None:
    """Refuse a model that keeps anything but each token's keys and values in every layer."""
    family = found.model_type
    if family not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or found.is_encoder_decoder:
        raise ModelError(f"transformers has no {family!r} that generates text: use another model")
    refuse_quantized(Fields(found.to_dict()))
    if found.get_text_config(decoder=True) is not found:
        parts = ", ".join(sorted(found.sub_configs)) or "text_config"
        raise ModelError(f"{family!r} reads more than text ({parts}): use a model of text alone")
    if _has_alibi(found):
        raise ModelError(f"{family!r} has ALiBi, which is not computed over an arena: use another model")
    for field in ("kv_lora_rank", "attn_logit_softcapping"):  # keys of other shapes, capped scores
        if getattr(found, field, None):
            raise ModelError(f"{family!r} has {field}, which is not computed over an arena: use another model")
    for layer in DynamicCache(config=found).layers:
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise ModelError(
                f"{family!r} keeps more than keys and values ({type(layer).__name__}): use another model"
            )


def _has_alibi(found: Any) -> bool:
    """Return whether a model has biases in place of positions."""
    inner = getattr(found, "attn_config", None)  # MPT's
    return found.model_type == "bloom" or bool(getattr(found, "alibi", False) or getattr(inner, "alibi", False))


def _bounds(found: Any) -> list[int]:
    """Return limits within which every row sees all before it and rotations do not depend on the text's length."""
    layers = DynamicCache(config=found).layers
    windows = [layer.sliding_window for layer in layers if isinstance(layer, DynamicSlidingWindowLayer)]
    rope: dict[str, Any] = getattr(found, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        windows.append(rope["original_max_position_embeddings"])
    return windows
