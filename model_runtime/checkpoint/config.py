"""Reads a checkpoint's `config.json` as the shape of a decoder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from model_runtime.checkpoint.fields import Fields
from model_runtime.checkpoint.layer_spec import Activation, Dense, Full, LayerSpec
from model_runtime.checkpoint.rope_parameters import Rope, RopeKind
from model_runtime.errors import ModelError
from model_runtime.isolated import Mask
from model_runtime.regular_files import MIB, read_regular

MOST_JSON = 16 * MIB  # bytes of a model's JSON: an index names each tensor
EMBEDDED = Path(__file__).parents[1] / "embedded"  # the model that ships in the package
EXCERPTS_KEY = "isolated_excerpts"  # of `config.json`: a model's mask and their most tokens
EXCERPT_ROWS_UNIT = 64  # tokens of a block of attention
LANGUAGES_KEY = "programming_languages"  # of `config.json`; transformers keeps it and does not read it
ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}

Part = TypeVar("Part", Full, Dense)


class UnknownArchitecture(ModelError):
    """Our own decoder does not know a part of the model."""


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a decoder; sizes in elements, `context` in tokens.

    Before its `context` a model that was trained with a `mask` has `excerpt_rows` rows for excerpts, else none.
    `norm_offset` is added to the weights of norms. `embedding_scale` multiplies embeddings, `residual_scale`
    what a layer adds; `logits_scale` divides logits. Of a `foreign` model, which transformers computes, only the
    fields that size arenas and prompts are set.
    """

    family: str
    vocab: int
    hidden: int
    layers: tuple[LayerSpec, ...]
    norm_eps: float
    rope: Rope
    context: int
    tied: bool
    end_ids: tuple[int, ...]
    norm: Literal["rms", "layer"] = "rms"
    norm_offset: float = 0.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logits_scale: float = 1.0
    foreign: bool = False
    excerpt_rows: int = 0
    mask: Mask | Literal[""] = ""

    @property
    def alike(self) -> LayerSpec:
        """What each layer is, of a model whose layers are all alike."""
        return self.layers[0]

    @property
    def positions(self) -> int:
        """Rows of an arena with the whole context, each of which is a position."""
        return self.excerpt_rows + self.context


def read_config(folder: Path) -> ModelConfig:
    """Read `config.json` of a checkpoint folder; ModelError if it is missing, damaged or not supported."""
    return parse_config(read_json(folder / "config.json"))


def read_languages(folder: Path) -> tuple[str, ...]:
    """Read the languages that a model knows, by LSP's names (`python`); empty if its `config.json` names none."""
    return Fields(read_json(folder / "config.json")).texts(LANGUAGES_KEY)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of a checkpoint; ModelError if there is none."""
    try:
        raw = json.loads(read_regular(path, MOST_JSON).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"{path} does not exist: name a folder that holds a model") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    if not isinstance(raw, dict):
        raise ModelError(f"{path} is not a JSON object: fetch the model again")
    return cast("dict[str, Any]", raw)


def parse_config(raw: dict[str, Any]) -> ModelConfig:
    """Turn the fields of a transformers configuration (v4 or v5 spelling) into a ModelConfig.

    UnknownArchitecture if the decoder would have to compute something that it does not know.
    """
    fields = Fields(raw)
    family = fields.text("model_type")
    if family not in FAMILY_FIELDS:
        known = ", ".join(FAMILY_FIELDS)
        raise UnknownArchitecture(f"the decoder does not know model_type {family!r}: use one of {known}")
    if quantized := fields.object("quantization_config"):
        how = quantized.get("quant_method")
        raise ModelError(f"the checkpoint is quantized ({how}): use the unquantized model")
    heads, rope = fields.size("num_attention_heads"), _rope(fields)
    shape: dict[str, Any] = dict(
        family=family,
        vocab=fields.size("vocab_size"),
        hidden=fields.size("hidden_size"),
        heads=heads,
        kv_heads=_kv_heads(fields, heads),
        head_dim=fields.size("head_dim", max(1, fields.size("hidden_size") // heads)),
        intermediate=fields.size("intermediate_size"),
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        rope=rope,
        context=_context(fields, fields.has("sliding_window", null=False)),
        tied=fields.flag("tie_word_embeddings"),
        end_ids=fields.ids("eos_token_id"),
        query_scale=rope.attention**2,
    )
    shape |= FAMILY_FIELDS[family](fields)
    layer = LayerSpec(_taken(Full, shape), _taken(Dense, shape))
    shape["layers"] = (layer,) * fields.size("num_hidden_layers")
    return ModelConfig(**shape | _excerpts(fields, shape["context"]))


def _taken(part: type[Part], shape: dict[str, Any]) -> Part:
    """Take a part's fields out of the fields of a model whose layers are all alike."""
    names = [field.name for field in fields(part) if field.name in shape]
    return part(**{name: shape.pop(name) for name in names})


def refuse_excerpts(raw: dict[str, Any], who: str) -> None:
    """Raise ModelError if a model wants isolated excerpts, which `who` cannot compute."""
    if Fields(raw).has(EXCERPTS_KEY, null=False):
        raise ModelError(f"{who} cannot compute {EXCERPTS_KEY} of config.json: use a model of another architecture")


def _excerpts(fields: Fields, positions: int) -> dict[str, Any]:
    """Read the mask that a model was trained with; the excerpts' rows take the first of its positions."""
    if not fields.has(EXCERPTS_KEY, null=False):
        return {}
    inner = Fields(fields.object(EXCERPTS_KEY))
    mask, excerpt_rows = inner.text("mask"), inner.size("tokens")
    if mask not in get_args(Mask):
        known = " or ".join(get_args(Mask))
        raise ModelError(f"config.json: {EXCERPTS_KEY} has the mask {mask!r}: use a model that names {known}")
    if excerpt_rows % EXCERPT_ROWS_UNIT or excerpt_rows >= positions:
        fits = f"a multiple of {EXCERPT_ROWS_UNIT} below the {positions} positions"
        raise ModelError(
            f"config.json: {EXCERPTS_KEY} has {excerpt_rows} tokens, not {fits}: correct it to what was trained"
        )
    return dict(excerpt_rows=excerpt_rows, mask=mask, context=positions - excerpt_rows)


def _llama(fields: Fields) -> dict[str, Any]:
    attention, mlp = fields.flag("attention_bias"), fields.flag("mlp_bias")
    return dict(qkv_bias=attention, out_bias=attention, mlp_bias=mlp, activation=_activation(fields, "silu"))


def _mistral(fields: Fields) -> dict[str, Any]:
    """Return Mistral's fields: there is a sliding window unless it is null."""
    slides = not fields.has("sliding_window") or fields.has("sliding_window", null=False)
    return dict(context=_context(fields, slides, 4096), activation=_activation(fields, "silu"))


def _qwen2(fields: Fields) -> dict[str, Any]:
    """Return Qwen 2's fields: a sliding window is named even if it is not used."""
    context = _context(fields, fields.flag("use_sliding_window"), 4096)
    return dict(qkv_bias=True, context=context, activation=_activation(fields, "silu"))


def _qwen3(fields: Fields) -> dict[str, Any]:
    biases = dict.fromkeys(("qkv_bias", "out_bias"), fields.flag("attention_bias"))
    return _qwen2(fields) | biases | dict(head_dim=fields.size("head_dim", 128), head_norms=True)


def _starcoder2(fields: Fields) -> dict[str, Any]:
    biases = dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), fields.flag("use_bias", True))
    return biases | dict(
        norm="layer",
        norm_eps=fields.number("norm_epsilon", 1e-5),
        activation=_activation(fields, "gelu_pytorch_tanh"),
        gated=False,
        tied=fields.flag("tie_word_embeddings", True),
    )


def _gemma(fields: Fields) -> dict[str, Any]:
    """Return Gemma's fields: its first configurations name another gelu than it was trained with."""
    biases = dict.fromkeys(("qkv_bias", "out_bias"), fields.flag("attention_bias"))
    return biases | dict(
        head_dim=fields.size("head_dim", 256),
        norm_offset=1.0,
        activation="gelu_tanh",
        embedding_scale=math.sqrt(fields.size("hidden_size")),
        tied=fields.flag("tie_word_embeddings", True),
    )


def _granite(fields: Fields) -> dict[str, Any]:
    head_dim = fields.size("head_dim", max(1, fields.size("hidden_size") // fields.size("num_attention_heads")))
    return _llama(fields) | dict(
        embedding_scale=fields.number("embedding_multiplier", 1.0),
        residual_scale=fields.number("residual_multiplier", 1.0),
        query_scale=fields.number("attention_multiplier", 1.0) * math.sqrt(head_dim) * _rope(fields).attention ** 2,
        logits_scale=fields.number("logits_scaling", 1.0),
    )


def _efim(fields: Fields) -> dict[str, Any]:
    """Return the fields of the embedded model's family: a Llama with parts that its configuration names."""
    parts = ("head_norms", "head_gates", "token_values")
    return {part: fields.flag(part) for part in parts} | dict(
        activation=_activation(fields, "silu"), tied=fields.flag("tie_word_embeddings", True)
    )


FAMILY_FIELDS: dict[str, Callable[[Fields], dict[str, Any]]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "mistral": _mistral,
    "starcoder2": _starcoder2,
    "gemma": _gemma,
    "granite": _granite,
    "efim": _efim,
}


def _kv_heads(fields: Fields, heads: int) -> int:
    kv_heads = fields.size("num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelError(f"config.json: {heads} query heads cannot share {kv_heads} key heads: fetch the model again")
    return kv_heads


def _activation(fields: Fields, default: str) -> Activation:
    name = fields.text("hidden_act", default)
    if name not in ACTIVATIONS:
        raise UnknownArchitecture(
            f"the decoder does not know the activation {name!r}: use a model with silu or gelu by tanh"
        )
    return ACTIVATIONS[name]


def _context(fields: Fields, slides: bool, window: int | None = None) -> int:
    """Return how many tokens every layer attends to: at most a sliding window, beyond which we do not go."""
    longest = fields.size("max_position_embeddings", 2048)
    return min(longest, fields.size("sliding_window", window)) if slides else longest


def _rope(fields: Fields) -> Rope:
    """Read the rotary embedding: version 4 has `rope_scaling` beside `rope_theta`, version 5 `rope_parameters`."""
    inner = Fields(fields.object("rope_parameters") | fields.object("rope_scaling"))
    theta = inner.number("rope_theta", fields.number("rope_theta", 10000.0))
    kind = inner.text("rope_type", inner.text("type", "default"))
    partial = inner.number("partial_rotary_factor", fields.number("partial_rotary_factor", 1.0))
    if kind not in ("default", "linear", "dynamic", "llama3", "yarn") or partial != 1:
        which = f"{kind!r} of {partial:.0%} of a head"
        raise UnknownArchitecture(f"the decoder does not know rotary embedding {which}: use another model")
    if kind in ("default", "dynamic"):
        return Rope(theta)
    factor = inner.number("factor")
    longest = fields.size("max_position_embeddings", 2048)
    original = inner.size("original_max_position_embeddings", longest) if kind != "linear" else 0
    if kind == "llama3":
        slow, fast = inner.number("low_freq_factor"), inner.number("high_freq_factor")
        return Rope(theta, kind, factor, original, slow, fast)
    if kind == "yarn":
        slow, fast = inner.number("beta_slow", 1.0), inner.number("beta_fast", 32.0)
        attention = inner.number("attention_factor", _yarn_attention(inner, factor))
        return Rope(theta, kind, factor, original, slow, fast, attention, inner.flag("truncate", True))
    return Rope(theta, cast("RopeKind", kind), factor)


def _yarn_attention(inner: Fields, factor: float) -> float:
    """Return the factor that sharpens attention for longer texts (arXiv 2309.00071, section 3.4)."""

    def sharpened(weight: float) -> float:
        return 0.1 * weight * math.log(max(factor, 1.0)) + 1.0

    if inner.flag("mscale") and inner.flag("mscale_all_dim"):
        return sharpened(inner.number("mscale")) / sharpened(inner.number("mscale_all_dim"))
    return sharpened(1.0)
