"""Reads a checkpoint's `config.json` as the shape of a decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from model_runtime.checkpoint.families import attentions, dense, experts, states, windows
from model_runtime.checkpoint.families.fields import Fields, read_json, refuse_quantized, refuse_too_deep
from model_runtime.checkpoint.families.layer_spec import (
    AltUp,
    Attention,
    Convolved,
    Dense,
    Experts,
    Full,
    Latent,
    LayerSpec,
    Lookback,
    Recurrence,
    Rope,
    ShortConv,
    State,
)
from model_runtime.checkpoint.families.shared_fields import UnknownArchitecture, read_kv_heads, read_rope
from model_runtime.checkpoint.gguf.config import config_fields
from model_runtime.checkpoint.gguf.header import GgufHeader, read_header
from model_runtime.checkpoint.weight_files import gguf_file, refuse_other_layouts
from model_runtime.errors import ModelError
from model_runtime.sequence_key import Mask

EXCERPTS_KEY = "isolated_excerpts"  # of `config.json`: a model's mask and their most tokens
EXCERPT_ROWS_UNIT = 64  # tokens of a block of attention
LANGUAGES_KEY = "programming_languages"  # of `config.json`; transformers keeps it and does not read it

NO_MLP = Dense(intermediate=0)
ONE_OF_EACH = (
    (Full, Latent, Convolved),
    (ShortConv, Recurrence, Lookback),
    (Dense,),
    (Experts,),
)  # parts that layers which are alike share
# Which families our own decoder computes, by their names in `config.json`.
FAMILY_FIELDS: dict[str, Callable[[Fields], dict[str, Any]]] = {
    "llama": dense.llama,
    "llama_swiftkv": dense.llama_swiftkv,
    "qwen2": dense.qwen2,
    "qwen3": dense.qwen3,
    "mistral": dense.mistral,
    "starcoder2": dense.starcoder2,
    "gemma": dense.gemma,
    "granite": dense.granite,
    "efim": dense.efim,
    "gemma2": windows.gemma2,
    "gemma3_text": windows.gemma3,
    "gemma3n_text": windows.gemma3n,
    "cohere2": windows.cohere2,
    "mixtral": experts.mixtral,
    "qwen2_moe": experts.qwen2_moe,
    "qwen3_moe": experts.qwen3_moe,
    "granitemoe": experts.granitemoe,
    "ernie4_5_moe": experts.ernie4_5_moe,
    "gpt_oss": experts.gpt_oss,
    "deepseek_v2": attentions.deepseek_v2,
    "deepseek_v3": attentions.deepseek_v3,
    "glm4_moe_lite": attentions.glm4_moe_lite,
    "mamba2": states.mamba2,
    "bamba": states.bamba,
    "granitemoehybrid": states.granitemoehybrid,
    "falcon_h1": states.falcon_h1,
    "qwen3_next": states.qwen3_next,
    "lfm2": states.lfm2,
    "zaya": attentions.zaya,
}
# What configurations of a family do not have, since none of its layers needs it.
FAMILY_DEFAULTS: dict[str, dict[str, Any]] = {"mamba2": {"num_attention_heads": 1, "intermediate_size": 1}}

Part = TypeVar("Part", Full, Dense)


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a decoder; sizes in elements, `context` in tokens.

    Before its `context` a model that was trained with a `mask` has `excerpt_rows` rows for excerpts, else none.
    `norm_offset` is added to the weights of norms, which have biases if they are layer norms with a `norm_bias`.
    `embedding_scale` multiplies embeddings, `residual_scale` a layer's output; `logits_scale` divides logits, and
    with a `logits_cap` c a logit x becomes c tanh(x / c). With `scaled_residuals` a layer's output and its residual
    are shifted and scaled, each number by its own. Of a `foreign` model, which transformers computes, only
    the fields that size arenas and prompts are set.
    """

    family: str
    vocab: int
    hidden: int
    layers: tuple[LayerSpec, ...]
    norm_eps: float
    context: int
    tied: bool
    end_ids: tuple[int, ...]
    norm: Literal["rms", "layer"] = "rms"
    norm_bias: bool = True
    norm_offset: float = 0.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logits_scale: float = 1.0
    logits_cap: float = 0.0
    altup: AltUp | None = None
    scaled_residuals: bool = False
    foreign: bool = False
    excerpt_rows: int = 0
    mask: Mask | Literal[""] = ""

    @property
    def alike(self) -> LayerSpec:
        """The layer of a model whose layers are all alike, except for windows and rotations."""
        return self.layers[0]

    @property
    def are_alike(self) -> bool:
        """Whether parts of one type are alike in all layers that have them, except for windows and rotations.

        There is only one type of attention, and only one of states.
        """
        parts = {part for layer in self.layers for part in (_without_place(layer.attention), layer.state, layer.mlp)}
        types = [type(part) for part in parts - {None}]
        orders = {(layer.norms_after, layer.parallel) for layer in self.layers}
        return len(orders) == 1 and all(sum(each in kinds for each in types) <= 1 for kinds in ONE_OF_EACH)

    @property
    def attentions(self) -> tuple[Attention, ...]:
        """The attention of each layer that has one."""
        return tuple(layer.attention for layer in self.layers if layer.attention is not None)

    @property
    def states(self) -> tuple[State, ...]:
        """The state of each layer that has one."""
        return tuple(layer.state for layer in self.layers if layer.state is not None)

    @property
    def full(self) -> Full:
        """The attention of each layer, of a model whose layers all have keys and values of each head."""
        attention = self.attentions[0]
        assert isinstance(attention, Full)
        return attention

    @property
    def dense(self) -> Dense:
        """The feed-forward part of the layers without experts, which has no numbers if there is none."""
        return next((layer.mlp for layer in self.layers if isinstance(layer.mlp, Dense)), NO_MLP)

    @property
    def ropes(self) -> tuple[Rope, ...]:
        """The different rotations of the layers, in the order in which they come first."""
        return tuple(dict.fromkeys(each.rope for each in self.attentions))

    @property
    def leaves(self) -> int:
        """The last layer that writes keys, values or a state; rows without logits need not be computed beyond it.

        Keys and values of early layers are written before the first of these layers is computed.
        """
        return max(i for i, each in enumerate(self.layers) if each.reads is None and not each.early)

    @property
    def first_early(self) -> int | None:
        """The first layer whose keys and values are made before it is computed, None if there is none."""
        return next((i for i, each in enumerate(self.layers) if each.early), None)

    @property
    def rotated(self) -> int:
        """Numbers of a key that rotations are made for; 0 if no layer attends."""
        return self.attentions[0].rotated if self.attentions else 0

    @property
    def plain(self) -> ModelConfig:
        """The config without rows for text of other files."""
        return replace(self, excerpt_rows=0, mask="")

    @property
    def positions(self) -> int:
        """Rows of an arena with the whole context, each of which is a position."""
        return self.excerpt_rows + self.context


def read_config(folder: Path) -> ModelConfig:
    """Read `config.json` of a checkpoint folder; ModelError if it is missing, damaged or not supported.

    In its place a GGUF file has metadata.
    """
    if file := gguf_file(folder):
        return gguf_config(read_header(file))
    refuse_other_layouts(folder)
    return parse_config(read_json(folder / "config.json"))


def gguf_config(header: GgufHeader) -> ModelConfig:
    """Return the config that the metadata of a GGUF file stand for; ModelError if it is damaged or not supported."""
    try:
        return parse_config(config_fields(header))
    except ModelError as error:
        raise ModelError(str(error).replace("config.json", str(header.path))) from None


def read_languages(folder: Path) -> tuple[str, ...]:
    """Read the languages that a model knows, by LSP's names (`python`); empty if its `config.json` names none."""
    return () if gguf_file(folder) else Fields(read_json(folder / "config.json")).texts(LANGUAGES_KEY)


def parse_config(raw: dict[str, Any]) -> ModelConfig:
    """Turn the fields of a transformers configuration (v4 or v5 spelling) into a ModelConfig.

    UnknownArchitecture if the decoder would have to compute something that it does not know.
    """
    fields = Fields(raw)
    refuse_quantized(fields)
    refuse_too_deep(fields)
    family = fields.text("model_type")
    if family not in FAMILY_FIELDS:
        known = ", ".join(FAMILY_FIELDS)
        raise UnknownArchitecture(f"the decoder does not know model_type {family!r}: use one of {known}")
    fields = Fields(FAMILY_DEFAULTS.get(family, {}) | raw)
    heads, hidden, count = (fields.size(name) for name in ("num_attention_heads", "hidden_size", "num_hidden_layers"))
    shape: dict[str, Any] = dict(
        family=family,
        vocab=fields.size("vocab_size"),
        hidden=hidden,
        heads=heads,
        kv_heads=read_kv_heads(fields, heads, heads),
        head_dim=fields.size("head_dim", max(1, hidden // heads)),
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        context=fields.size("max_position_embeddings", 2048),
        tied=fields.flag("tie_word_embeddings"),
        end_ids=fields.ids("eos_token_id"),
        windows=(0,) * count,
        mlps=(None,) * count,
        attends=(True,) * count,
        reads=(None,) * count,
        early=(False,) * count,
        states=(None,) * count,
    )
    shape |= FAMILY_FIELDS[family](fields)
    if "ropes" not in shape:
        shape["ropes"] = (read_rope(fields),) * count
    if "intermediate" not in shape:
        shape["intermediate"] = fields.size("intermediate_size")
    shape["layers"] = tuple(_layers(shape))
    return ModelConfig(**shape | _excerpts(fields, shape))


def _layers(shape: dict[str, Any]) -> Iterator[LayerSpec]:
    """Yield the layers, taking their fields out of the model's fields."""
    by_layer = [shape.pop(name) for name in ("attends", "reads", "early", "windows", "ropes", "states", "mlps")]
    whole = {name: shape.pop(name) for name in ("norms_after", "parallel") if name in shape}
    full, dense, own = _taken(Full, shape), _taken(Dense, shape), shape.pop("attention", None)
    mlp = dense if shape.pop("feeds_forward", True) else None
    for attends, reads, early, window, rope, state, own_mlp in zip(*by_layer, strict=True):
        attention: Attention | None = None
        window = 0 if window >= shape["context"] else window
        if attends and own is not None:
            attention = replace(own, rope=rope, **dict(window=window) if isinstance(own, Convolved) else {})
        elif attends:
            scale = full.query_scale * rope.attention**2
            attention = replace(full, rope=rope, window=window, query_scale=scale)
        yield LayerSpec(attention, own_mlp or mlp, state=state, reads=reads, early=early, **whole)


def _taken(part: type[Part], shape: dict[str, Any]) -> Part:
    """Take a part's fields out of the fields of a model whose layers are all alike."""
    names = [field.name for field in fields(part) if field.name in shape]
    return part(**{name: shape.pop(name) for name in names})


def _without_place(attention: Attention | None) -> Attention | None:
    if attention is None:
        return None
    attention = replace(attention, rope=Rope())
    return attention if isinstance(attention, Latent) else replace(attention, window=0)


def refuse_excerpts(raw: dict[str, Any], who: str) -> None:
    """Raise ModelError if a model wants excerpts apart, which `who` cannot compute."""
    if Fields(raw).has(EXCERPTS_KEY, null=False):
        raise ModelError(f"{who} cannot compute {EXCERPTS_KEY} of config.json: use a model of another architecture")


def _excerpts(fields: Fields, shape: dict[str, Any]) -> dict[str, Any]:
    """Read the mask that a model was trained with; the excerpts' rows take the first of its positions."""
    if not fields.has(EXCERPTS_KEY, null=False):
        return {}
    positions: int = shape["context"]
    layers: tuple[LayerSpec, ...] = shape["layers"]
    if any(layer.window or layer.state for layer in layers):
        kind = "slide" if any(layer.window for layer in layers) else "have states"
        raise ModelError(
            f"config.json: layers that {kind} do not keep {EXCERPTS_KEY} in sight: remove one of the two"
        )
    inner = Fields(fields.object(EXCERPTS_KEY))
    mask, excerpt_rows = inner.text("mask"), inner.size("tokens")
    if mask not in get_args(Mask):
        known = " or ".join(get_args(Mask))
        raise ModelError(f"config.json: {EXCERPTS_KEY} has the mask {mask!r}: use a model that names {known}")
    if excerpt_rows % EXCERPT_ROWS_UNIT or excerpt_rows >= positions:
        fits = f"a multiple of {EXCERPT_ROWS_UNIT} below the {positions} positions"
        raise ModelError(
            f"config.json: {EXCERPTS_KEY} has {excerpt_rows} tokens, not {fits}: correct it to the trained value"
        )
    return dict(excerpt_rows=excerpt_rows, mask=mask, context=positions - excerpt_rows)
