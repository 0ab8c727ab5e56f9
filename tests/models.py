"""Tiny random checkpoints in the layout of published ones, so that tests need no download."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, load_model, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM

from efim_lab.training import network
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.layer_spec import GATE_INPUTS, LayerSpec
from model_runtime.checkpoint.weights import TOKEN_VALUES

SPECIAL = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>")
VOCABULARY = 400
# How Qwen2 cuts a text into pieces that no token reaches over.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CODE = '''"""Read and write the records of a store."""

import os
from pathlib import Path


class Record:
    """One entry: a name, a value and the time of its last change."""

    def __init__(self, name: str, value: int = 0) -> None:
        self.name = name
        self.value = value
        self.changed = None

    def update(self, value: int) -> bool:
        """Set the value; true where it differs from the old one."""
        if value == self.value:
            return False
        self.value = value
        return True


def read(path: Path) -> list[Record]:
    """Read all records of a file, one for each line that is not empty."""
    records = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file):
            if not line.strip():
                continue
            name, value = line.split("=", 1)
            records.append(Record(name.strip(), int(value)))
    return records


def write(path: Path, records: list[Record]) -> None:
    """Write records to a file; what was there before is lost."""
    lines = [f"{record.name}={record.value}" for record in records]
    os.makedirs(path.parent, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\\n".join(lines))


def total(records: list[Record]) -> int:
    """Sum of the values of all records."""
    result = 0
    for record in records:
        result += record.value
    return result
'''


Family = Literal["llama", "qwen2", "qwen3", "mistral", "starcoder2", "gemma", "granite", "efim"]

# What the configurations of a family have besides sizes, spelled as published ones are.
FIELDS: dict[Family, dict[str, Any]] = {
    "llama": {"hidden_act": "silu"},
    "qwen2": {"hidden_act": "silu", "use_sliding_window": False},
    "qwen3": {"hidden_act": "silu", "use_sliding_window": False, "sliding_window": None, "attention_bias": False},
    "mistral": {"hidden_act": "silu", "sliding_window": None},
    "starcoder2": {"hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "use_bias": True},
    "gemma": {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": None, "attention_bias": False},
    "granite": {
        "hidden_act": "silu", "attention_bias": True, "mlp_bias": True, "embedding_multiplier": 6.0,
        "attention_multiplier": 0.4, "residual_multiplier": 0.7, "logits_scaling": 1.5,
    },
    "efim": {
        "hidden_act": "silu", "head_norms": True, "head_gates": True, "token_values": True,
    },
}  # fmt: skip
CLASSES: dict[Family, str] = {
    "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral", "starcoder2": "Starcoder2",
    "gemma": "Gemma", "granite": "Granite", "efim": "Efim",
}  # fmt: skip
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 80,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 80},
}  # fmt: skip


@dataclass(frozen=True)
class Tiny:
    """Shape of a tiny model; head_dim is not hidden / heads, so that no code may take one for the other."""

    family: Family = "llama"
    tied: bool = True
    layers: int = 2
    hidden: int = 48
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    intermediate: int = 80
    context: int = 512
    theta: float = 10000.0
    scaling: str = ""
    vocabulary: int = VOCABULARY
    seed: int = 0
    excerpt_rows: int = 0
    mask: str = "typed"


LLAMA = Tiny()


def make(folder: Path, tiny: Tiny = LLAMA, *, half: bool = False) -> Path:
    """Write config.json, model.safetensors (bfloat16 if `half`) and tokenizer.json to a folder; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(tiny), indent=1), encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    dtype = torch.bfloat16 if half else torch.float32
    weights = {name: tensor.to(dtype) for name, tensor in random_weights(tiny).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def config(tiny: Tiny) -> dict[str, Any]:
    """The config.json of a tiny model: Qwen's as transformers 5 spells it, the others' as transformers 4 does."""
    rope: dict[str, Any] = {"rope_theta": tiny.theta}
    scaling = SCALINGS.get(tiny.scaling)
    if tiny.family in ("qwen2", "qwen3"):
        rope = {"rope_parameters": {"rope_type": "default", **rope, **(scaling or {})}}
    elif scaling:
        rope["rope_scaling"] = scaling
    return {
        "architectures": [f"{CLASSES[tiny.family]}ForCausalLM"],
        "model_type": tiny.family,
        "vocab_size": tiny.vocabulary,
        "hidden_size": tiny.hidden,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "head_dim": tiny.head_dim,
        "intermediate_size": tiny.intermediate,
        "max_position_embeddings": tiny.context,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": tiny.tied,
        "bos_token_id": None,
        "eos_token_id": 0,
        **({"isolated_excerpts": {"mask": tiny.mask, "tokens": tiny.excerpt_rows}} if tiny.excerpt_rows else {}),
        **FIELDS[tiny.family],
        **rope,
    }


def reference(folder: Path) -> torch.nn.Module:
    """The model that decoders are compared with, in fp32: transformers', or for its own family the trainer's."""
    if read_config(folder).family != "efim":
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model = network.build(network.read_shape(folder))
    load_model(model, folder / "model.safetensors")
    return model.eval()


def reshaped(shape: ModelConfig, *, layers: int | None = None, **others: Any) -> ModelConfig:
    """The same model with other fields, those of its layers in each layer alike."""
    spec = shape.alike
    of_attention, of_mlp = (
        {field.name: others.pop(field.name) for field in fields(part) if field.name in others}
        for part in (spec.attention, spec.mlp)
    )
    layer = LayerSpec(replace(spec.attention, **of_attention), replace(spec.mlp, **of_mlp))
    return replace(shape, layers=(layer,) * (layers or len(shape.layers)), **others)


def random_weights(tiny: Tiny) -> dict[str, torch.Tensor]:
    """Weights by name, large enough that logits are spread and depend on far more than the last token."""
    generator = torch.Generator().manual_seed(tiny.seed)

    def normal(*shape: int, std: float) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * std

    def add_norm(name: str, size: int = tiny.hidden) -> None:
        weights[f"{name}.weight"] = normal(size, std=0.1) + (tiny.family != "gemma")  # which adds the 1 itself
        if tiny.family == "starcoder2":
            weights[f"{name}.bias"] = normal(size, std=0.1)

    def add_matrix(name: str, rows: int, columns: int, gain: float = 1.0) -> None:
        weights[f"{name}.weight"] = normal(rows, columns, std=gain * columns**-0.5)
        if _has_bias(tiny.family, name):
            weights[f"{name}.bias"] = normal(rows, std=0.5)

    q, kv = tiny.heads * tiny.head_dim, tiny.kv_heads * tiny.head_dim
    weights = {"model.embed_tokens.weight": normal(tiny.vocabulary, tiny.hidden, std=0.3)}
    add_norm("model.norm")
    if tiny.family == "efim":
        weights[TOKEN_VALUES] = normal(tiny.vocabulary, tiny.layers * kv, std=0.5)
    if not tiny.tied:
        weights["lm_head.weight"] = normal(tiny.vocabulary, tiny.hidden, std=0.3)
    for layer in range(tiny.layers):
        at = f"model.layers.{layer}."
        add_norm(at + "input_layernorm")
        add_norm(at + "post_attention_layernorm")
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            add_matrix(f"{at}self_attn.{name}_proj", rows, tiny.hidden, 1.5)
        if tiny.family in ("qwen3", "efim"):
            add_norm(at + "self_attn.q_norm", tiny.head_dim)
            add_norm(at + "self_attn.k_norm", tiny.head_dim)
        if tiny.family == "efim":
            weights[at + "self_attn.head_gates.weight"] = normal(tiny.heads, GATE_INPUTS, std=0.3)
        add_matrix(at + "self_attn.o_proj", tiny.hidden, q, 1.5)
        ups, down = (["c_fc"], "c_proj") if tiny.family == "starcoder2" else (["gate_proj", "up_proj"], "down_proj")
        for name in ups:
            add_matrix(f"{at}mlp.{name}", tiny.intermediate, tiny.hidden)
        add_matrix(f"{at}mlp.{down}", tiny.hidden, tiny.intermediate, 1.5)
    return weights


def _has_bias(family: Family, name: str) -> bool:
    of_input = name.endswith(("q_proj", "k_proj", "v_proj"))
    return family in ("starcoder2", "granite") or (family == "qwen2" and of_input)


@lru_cache(1)
def tokenizer_json() -> str:
    """A byte-level BPE tokenizer of 400 entries with infilling markers, trained on CODE."""
    tokenizer = Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(PIECES), "isolated")
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, spell])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CODE], trainer)
    return tokenizer.to_str()


def shard(folder: Path, parts: int = 2) -> None:
    """Split the weights of a checkpoint folder into files with an index, as large models are published."""
    whole = folder / "model.safetensors"
    weights = load_file(whole)
    whole.unlink()
    index: dict[str, str] = {}
    for part, names in enumerate(_dealt(sorted(weights), parts), 1):
        file = f"model-{part:05}-of-{parts:05}.safetensors"
        save_file({name: weights[name] for name in names}, folder / file)
        index |= dict.fromkeys(names, file)
    text = json.dumps({"metadata": {}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def _dealt(names: list[str], parts: int) -> Iterator[list[str]]:
    for part in range(parts):
        yield names[part::parts]
