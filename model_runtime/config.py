"""The decoder's view of a checkpoint's `config.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from model_runtime.errors import ModelError

FAMILIES = ("llama", "qwen2")
EMBEDDED = Path(__file__).parent / "embedded"  # the model that ships in the package


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a Llama-lineage decoder; sizes in elements, `context` in tokens."""

    family: str
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    norm_eps: float
    rope_theta: float
    context: int
    tied: bool
    end_ids: tuple[int, ...]


def read_config(folder: Path) -> ModelConfig:
    """Read `config.json` of a checkpoint folder; ModelError where it is missing, damaged or not supported."""
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist: name a folder that holds a model") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    if not isinstance(raw, dict):
        raise ModelError(f"{path} is not a JSON object: fetch the model again")
    return parse_config(cast(dict[str, Any], raw))


def parse_config(raw: dict[str, Any]) -> ModelConfig:
    """Turn the fields of a transformers configuration (v4 or v5 spelling) into a ModelConfig."""
    family = raw.get("model_type")
    if family not in FAMILIES:
        raise ModelError(f"model_type {family!r} is not supported: use one of {', '.join(FAMILIES)}")
    _refuse_unknown(raw)
    try:
        return ModelConfig(
            family=family,
            vocab=int(raw["vocab_size"]),
            hidden=int(raw["hidden_size"]),
            layers=int(raw["num_hidden_layers"]),
            heads=int(raw["num_attention_heads"]),
            kv_heads=int(raw.get("num_key_value_heads") or raw["num_attention_heads"]),
            head_dim=int(raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"]),
            intermediate=int(raw["intermediate_size"]),
            norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
            rope_theta=_rope_theta(raw),
            context=int(raw.get("max_position_embeddings", 2048)),
            tied=bool(raw.get("tie_word_embeddings", False)),
            end_ids=_end_ids(raw.get("eos_token_id")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"config.json lacks or garbles {error}: fetch the model again") from None


def _rope_theta(raw: dict[str, Any]) -> float:
    return float(_rope(raw).get("rope_theta") or raw.get("rope_theta") or 10000.0)


def _rope(raw: dict[str, Any]) -> dict[str, Any]:
    return raw.get("rope_parameters") or raw.get("rope_scaling") or {}


def _end_ids(raw: object) -> tuple[int, ...]:
    if raw is None:
        return ()
    return (raw,) if isinstance(raw, int) else tuple(int(i) for i in cast(list[int], raw))


def _refuse_unknown(raw: dict[str, Any]) -> None:
    """Refuse what would change the numbers and is not computed: silence would give wrong text."""
    scaling = _rope(raw)
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind != "default":
        raise ModelError(f"rope scaling {kind!r} is not supported: use a model without it")
    if raw.get("use_sliding_window"):
        raise ModelError("sliding-window attention is not supported: use a model without it")
    if raw.get("hidden_act", "silu") != "silu":
        raise ModelError(f"activation {raw['hidden_act']!r} is not supported: use a model with silu")
