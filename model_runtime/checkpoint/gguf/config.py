"""Makes the fields that the config.json of a GGUF file's model would have."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.gguf.header import AGAIN, GgufHeader
from model_runtime.errors import ModelError

END_TOKENS = ("eos_token_id", "eot_token_id", "eom_token_id")
GRANITE = {
    "embedding_multiplier": "embedding_scale",
    "attention_multiplier": "attention.scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}
SLIDES = "starcoder2.attention.sliding_window"
STARCODER_WINDOW = 4096  # of the published models, which the conversion did not write down
NORM = "attention.layer_norm_rms_epsilon"
ROPE_TABLE, EXPERTS = "rope_freqs.weight", "blk.0.ffn_gate_exps.weight"


@dataclass(frozen=True)
class Architecture:
    """What llama.cpp calls a family of models, in transformers' words.

    `numbers` are further fields, by config.json's names. Where heads are `turned`, the rows of queries and keys lie
    so that neighbours are rotated together. To the norms' weights 1 was added where they are `shifted`.
    """

    family: str
    numbers: dict[str, str] = field(default_factory=dict[str, str])
    fixed: dict[str, Any] = field(default_factory=dict[str, Any])
    turned: bool = False
    shifted: bool = False


# By `general.architecture`, as llama.cpp's conversion (convert_hf_to_gguf.py) writes them.
ARCHITECTURES = {
    "llama": Architecture("llama", {"rms_norm_eps": NORM}, turned=True),
    "granite": Architecture("granite", {"rms_norm_eps": NORM} | GRANITE, turned=True),
    "qwen2": Architecture("qwen2", {"rms_norm_eps": NORM}),
    "qwen3": Architecture("qwen3", {"rms_norm_eps": NORM}),
    "qwen3moe": Architecture("qwen3_moe", {"rms_norm_eps": NORM}, {"norm_topk_prob": True}),
    "starcoder2": Architecture("starcoder2", {"norm_epsilon": "attention.layer_norm_epsilon"}),
    "gemma": Architecture("gemma", {"rms_norm_eps": NORM}, shifted=True),
}


def architecture_of(header: GgufHeader) -> Architecture:
    """Return the architecture of a file's model; ModelError if it is not read from GGUF."""
    if header.text("general.type", "model") == "adapter":
        raise ModelError(f"{header.path} is an adapter, which is not read: merge it into its model")
    if (name := header.text("general.architecture")) in ARCHITECTURES:
        return ARCHITECTURES[name]
    if name == "clip":
        how = "name the file of the model itself"
        raise ModelError(f"{header.path} holds the part of a model that reads pictures (mmproj): {how}")
    known = ", ".join(ARCHITECTURES)
    how = "use the model that it was made of, in safetensors, or start llama.cpp's server and name it in engine"
    raise ModelError(f"{header.path} is of the architecture {name!r}; of GGUF files {known} are read: {how}")


def head_size(header: GgufHeader) -> int:
    """Return how many numbers a key has."""
    name = header.text("general.architecture")
    hidden, heads = header.whole(f"{name}.embedding_length"), max(1, header.whole(f"{name}.attention.head_count"))
    return header.whole(f"{name}.attention.key_length", hidden // heads)


def config_fields(header: GgufHeader) -> dict[str, Any]:
    """Return the fields of the model's config.json; ModelError names what cannot be computed."""
    made, name = architecture_of(header), header.text("general.architecture")
    heads, size = header.whole(f"{name}.attention.head_count"), head_size(header)
    if (rotated := header.whole(f"{name}.rope.dimension_count", size)) != size or size % 2:
        raise ModelError(f"{header.path} rotates {rotated} of {size} numbers of a head: use another model")
    if made.family == "llama" and header.whole("llama.expert_count", 0):
        raise ModelError(f"{header.path} is a llama with experts, which is not read from GGUF: use it in safetensors")
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelError(f"{header.path} lacks token_embd.weight: {AGAIN}")
    return {
        "model_type": made.family,
        "vocab_size": embedding.shape[0],
        "hidden_size": header.whole(f"{name}.embedding_length"),
        "num_hidden_layers": header.whole(f"{name}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.whole(f"{name}.attention.head_count_kv", heads),
        "head_dim": size,
        "intermediate_size": header.whole(f"{name}.feed_forward_length"),
        "max_position_embeddings": header.whole(f"{name}.context_length"),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in header.tensors,
        "use_bias": "blk.0.attn_q.bias" in header.tensors,
        "eos_token_id": end_tokens(header),
        "rope_theta": header.number(f"{name}.rope.freq_base", 10000.0),
        "rope_scaling": _scaling(header, name, size),
        **{key: header.number(f"{name}.{value}") for key, value in made.numbers.items()},
        **made.fixed,
        **(_experts(header, name) if made.family == "qwen3_moe" else {}),
        **({"sliding_window": header.whole(SLIDES, STARCODER_WINDOW)} if made.family == "starcoder2" else {}),
    }


def end_tokens(header: GgufHeader) -> list[int]:
    """Return the tokens that end a text."""
    keys = (f"tokenizer.ggml.{key}" for key in END_TOKENS)
    return [*dict.fromkeys(header.whole(key) for key in keys if key in header.values)]


def _experts(header: GgufHeader, name: str) -> dict[str, Any]:
    count, gates = header.whole(f"{name}.expert_count"), header.tensors.get(EXPERTS)
    if gates is None or gates.shape[0] != count:
        raise ModelError(f"{header.path} lacks {EXPERTS} with {count} experts: {AGAIN}")
    return {
        "num_experts": count,
        "num_experts_per_tok": header.whole(f"{name}.expert_used_count"),
        "moe_intermediate_size": header.whole(f"{name}.expert_feed_forward_length"),
    }


def _scaling(header: GgufHeader, name: str, size: int) -> dict[str, Any] | None:
    """Return how the rotary embedding is stretched, None if it is not."""
    if ROPE_TABLE in header.tensors:
        return _llama3(header, header.number(f"{name}.rope.freq_base", 10000.0), size)
    at = f"{name}.rope.scaling"
    usual = "linear" if f"{name}.rope.scale_linear" in header.values else "none"  # as older files have it
    kind = header.text(f"{at}.type", usual)
    if kind == "none":
        return None
    if kind not in ("linear", "yarn") or header.number(f"{at}.attn_factor", 1.0) != 1.0:
        raise ModelError(f"{header.path} stretches its context by {kind!r}, which is not read: use another model")
    factor = header.number(f"{at}.factor", header.number(f"{name}.rope.scale_linear", 1.0))
    scaling: dict[str, Any] = {"rope_type": kind, "factor": factor}
    if kind == "yarn":
        scaling["original_max_position_embeddings"] = header.whole(f"{at}.original_context_length")
    return scaling


def _llama3(header: GgufHeader, theta: float, size: int) -> dict[str, Any]:
    """Return Llama 3's stretching, of which a file has a table alone: what each wave's length is multiplied by."""
    place = header.tensors[ROPE_TABLE]
    table = place.content.view("<f4") if place.kind == 0 else np.zeros(0, np.float32)
    if len(table) == size // 2 and np.isfinite(table).all() and (factor := round(float(table.max()), 4)) > 1:
        lengths = 2 * math.pi * theta ** (np.arange(0, size, 2) / size)
        between = (table > 1.001) & (table < 0.999 * factor)
        shares = (1 / table[between] - 1 / factor) / (1 - 1 / factor)
        originals = lengths[between] * (1 + 3 * shares)
        original = round(float(np.median(originals))) if len(originals) else 8192
        if np.allclose(table, _table(lengths, factor, original), rtol=1e-3):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": original,
            }
    raise ModelError(f"{header.path}: {ROPE_TABLE} is not as Llama 3 stretches its context: use another model")


def _table(lengths: npt.NDArray[np.float64], factor: float, original: int) -> npt.NDArray[np.float64]:
    """Return Llama 3's table: long waves are stretched, short ones are not, and between 1 and 4 a part of each."""
    shares = np.clip((original / lengths - 1) / 3, 0, 1)
    return 1 / ((1 - shares) / factor + shares)
