"""The decoder's view of a checkpoint's `config.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from model_runtime.errors import ModelError

LARGEST = 1 << 24  # no size of a model that could run here is larger
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


def model_folder(name: str) -> Path:
    """The folder that a user's setting names; without a name that of the embedded model."""
    return Path(name).expanduser() if name else EMBEDDED


def read_config(folder: Path) -> ModelConfig:
    """Read `config.json` of a checkpoint folder; ModelError where it is missing, damaged or not supported."""
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist: name a folder that holds a model") from None
    except (OSError, ValueError, RecursionError) as error:
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
    heads, hidden = _size(raw, "num_attention_heads"), _size(raw, "hidden_size")
    kv_heads = _size(raw, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelError(f"config.json: {heads} query heads cannot share {kv_heads} key heads: fetch the model again")
    return ModelConfig(
        family=family,
        vocab=_size(raw, "vocab_size"),
        hidden=hidden,
        layers=_size(raw, "num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_size(raw, "head_dim", hidden // heads),
        intermediate=_size(raw, "intermediate_size"),
        norm_eps=_number(raw, "rms_norm_eps", 1e-6),
        rope_theta=_number(_rope(raw, "rope_parameters") | raw, "rope_theta", 10000.0),
        context=_size(raw, "max_position_embeddings", 2048),
        tied=bool(raw.get("tie_word_embeddings", False)),
        end_ids=_end_ids(raw.get("eos_token_id")),
    )


def _size(raw: dict[str, Any], name: str, default: int | None = None) -> int:
    value = _given(raw, name, default)
    if type(value) is not int or not 0 < value <= LARGEST:
        raise ModelError(f"config.json: {name} is {value!r}, no size: fetch the model again")
    return value


def _number(raw: dict[str, Any], name: str, default: float) -> float:
    value = _given(raw, name, default)
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise ModelError(f"config.json: {name} is {value!r}, no positive number: fetch the model again")
    return float(value)


def _given(raw: dict[str, Any], name: str, default: object) -> Any:
    value = raw.get(name)
    return default if value is None else value


def _rope(raw: dict[str, Any], name: str) -> dict[str, Any]:
    value: object = raw.get(name) or {}
    if not isinstance(value, dict):
        raise ModelError(f"config.json: {name} is {value!r}, no object: fetch the model again")
    return cast(dict[str, Any], value)


def _end_ids(raw: object) -> tuple[int, ...]:
    ids = cast(list[object], raw if isinstance(raw, list) else [] if raw is None else [raw])
    if not all(type(i) is int and 0 <= i <= LARGEST for i in ids):
        raise ModelError(f"config.json: eos_token_id is {raw!r}, no token: fetch the model again")
    return tuple(cast(list[int], ids))


def _refuse_unknown(raw: dict[str, Any]) -> None:
    """Refuse what would change the numbers and is not computed: silence would give wrong text."""
    for scaling in (_rope(raw, "rope_parameters"), _rope(raw, "rope_scaling")):
        kind = scaling.get("rope_type") or scaling.get("type") or "default"
        if kind != "default":
            raise ModelError(f"rope scaling {kind!r} is not supported: use a model without it")
    if raw.get("attention_bias") or raw.get("mlp_bias"):
        raise ModelError("attention_bias and mlp_bias are not supported: use a model without them")
    if raw.get("use_sliding_window"):
        raise ModelError("sliding-window attention is not supported: use a model without it")
    if raw.get("hidden_act", "silu") != "silu":
        raise ModelError(f"activation {raw['hidden_act']!r} is not supported: use a model with silu")
