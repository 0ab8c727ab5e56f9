"""Tiny random checkpoints in the layout of published ones, so that tests need no download."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, load_model, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM

from efim_lab.gate import network
from model_runtime.checkpoint.config import ModelConfig, parse_config, read_config
from model_runtime.checkpoint.families.layer_spec import GATE_INPUTS, Dense, Experts, Full, Latent
from model_runtime.checkpoint.tensor_shapes import TOKEN_VALUES, expected_shapes, stored_name
from tests.engine.swiftkv import SwiftKv

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


Family = Literal[
    "llama", "qwen2", "qwen3", "mistral", "starcoder2", "gemma", "gemma2", "gemma3_text", "cohere2", "granite",
    "efim",
    "mixtral", "qwen2_moe", "qwen3_moe", "granitemoe", "ernie4_5_moe", "gpt_oss", "deepseek_v2", "deepseek_v3",
    "mamba2", "bamba", "granitemoehybrid", "falcon_h1", "qwen3_next", "lfm2", "gemma3n_text", "glm4_moe_lite",
    "llama_swiftkv", "zaya",
]  # fmt: skip
GEMMAS = ("gemma", "gemma2", "gemma3_text")
ADD_ONE = (*GEMMAS, "qwen3_next")  # to the weights of norms

MAMBA: dict[str, Any] = {
    "hidden_act": "silu", "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 16,
    "mamba_d_conv": 4, "mamba_expand": 2, "mamba_chunk_size": 32, "mamba_conv_bias": True, "mamba_proj_bias": False,
    "attention_bias": False,
}  # fmt: skip

# What the configurations of a family have besides sizes, spelled as published ones are.
FIELDS: dict[Family, dict[str, Any]] = {
    "llama": {"hidden_act": "silu"},
    "llama_swiftkv": {
        "hidden_act": "silu", "swiftkv": True, "num_key_value_layers": 1, "key_value_group_size": 1,
    },
    "qwen2": {"hidden_act": "silu", "use_sliding_window": False},
    "qwen3": {"hidden_act": "silu", "use_sliding_window": False, "sliding_window": None, "attention_bias": False},
    "mistral": {"hidden_act": "silu", "sliding_window": None},
    "starcoder2": {"hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "use_bias": True},
    "gemma": {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": None, "attention_bias": False},
    "gemma2": {
        "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, "query_pre_attn_scalar": 12,
        "attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0, "sliding_window": 40,
    },
    "gemma3_text": {
        "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, "query_pre_attn_scalar": 12,
        "sliding_window": 40, "sliding_window_pattern": 2, "rope_local_base_freq": 300.0,
    },
    "gemma3n_text": {
        "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, "sliding_window": 40,
        "rope_local_base_freq": 300.0, "num_kv_shared_layers": 2, "final_logit_softcapping": 6.0,
        "altup_num_inputs": 3, "laurel_rank": 8, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 300,
    },
    "cohere2": {
        "hidden_act": "silu", "attention_bias": False, "layer_norm_eps": 1e-5, "logit_scale": 0.5,
        "sliding_window": 40, "sliding_window_pattern": 2,
    },
    "granite": {
        "hidden_act": "silu", "attention_bias": True, "mlp_bias": True, "embedding_multiplier": 6.0,
        "attention_multiplier": 0.4, "residual_multiplier": 0.7, "logits_scaling": 1.5,
    },
    "efim": {
        "hidden_act": "silu", "head_norms": True, "head_gates": True, "token_values": True,
    },
    "mixtral": {"hidden_act": "silu", "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen2_moe": {
        "hidden_act": "silu", "use_sliding_window": False, "num_experts": 6, "num_experts_per_tok": 3,
        "moe_intermediate_size": 36, "shared_expert_intermediate_size": 56, "norm_topk_prob": False,
        "decoder_sparse_step": 2, "mlp_only_layers": [],
    },
    "qwen3_moe": {
        "hidden_act": "silu", "use_sliding_window": False, "sliding_window": None, "attention_bias": False,
        "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 36, "norm_topk_prob": True,
        "mlp_only_layers": [],
    },
    "granitemoe": {
        "hidden_act": "silu", "attention_bias": False, "embedding_multiplier": 6.0, "attention_multiplier": 0.4,
        "residual_multiplier": 0.7, "logits_scaling": 1.5, "num_local_experts": 5, "num_experts_per_tok": 2,
    },
    "ernie4_5_moe": {
        "hidden_act": "silu", "use_bias": False, "moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 36,
        "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_layer_interval": 1,
    },
    "deepseek_v2": {
        "hidden_act": "silu", "attention_bias": False, "kv_lora_rank": 32, "q_lora_rank": None,
        "qk_nope_head_dim": 20, "qk_rope_head_dim": 16, "v_head_dim": 24, "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 36, "n_shared_experts": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
        "topk_method": "greedy", "n_group": 1, "topk_group": 1, "norm_topk_prob": False,
    },
    "glm4_moe_lite": {
        "hidden_act": "silu", "attention_bias": False, "kv_lora_rank": 48, "q_lora_rank": 32, "qk_nope_head_dim": 20,
        "qk_rope_head_dim": 16, "v_head_dim": 24, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 36, "n_shared_experts": 1, "routed_scaling_factor": 1.8, "n_group": 1,
        "topk_group": 1, "norm_topk_prob": True, "rope_interleave": True,
    },
    "deepseek_v3": {
        "hidden_act": "silu", "attention_bias": False, "kv_lora_rank": 48, "q_lora_rank": 32, "qk_nope_head_dim": 20,
        "qk_rope_head_dim": 16, "v_head_dim": 24, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 36, "n_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
        "n_group": 4, "topk_group": 2, "norm_topk_prob": True, "rope_interleave": True,
    },
    "mamba2": {
        "hidden_act": "silu", "num_heads": 6, "head_dim": 16, "expand": 2, "n_groups": 2, "state_size": 16,
        "conv_kernel": 4, "chunk_size": 32, "use_bias": True, "use_conv_bias": True, "layer_norm_epsilon": 1e-5,
    },
    "bamba": MAMBA | {"attn_layer_indices": [1]},
    "granitemoehybrid": MAMBA | {
        "embedding_multiplier": 6.0, "attention_multiplier": 0.4, "residual_multiplier": 0.7, "logits_scaling": 1.5,
        "num_local_experts": 5, "num_experts_per_tok": 2, "shared_intermediate_size": 56,
        "position_embedding_type": "nope",
    },
    "falcon_h1": MAMBA | {
        "mamba_d_ssm": 96, "mamba_rms_norm": True, "mamba_norm_before_gate": False, "key_multiplier": 0.8,
        "attention_in_multiplier": 0.9, "attention_out_multiplier": 1.2, "ssm_in_multiplier": 1.1,
        "ssm_out_multiplier": 0.7, "ssm_multipliers": [0.9, 1.1, 0.8, 1.2, 0.7], "mlp_multipliers": [0.8, 1.3],
        "embedding_multiplier": 2.0, "lm_head_multiplier": 0.5, "projectors_bias": False,
    },
    "qwen3_next": {
        "hidden_act": "silu", "attention_bias": False, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
        "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "num_experts": 6,
        "num_experts_per_tok": 2, "moe_intermediate_size": 36, "shared_expert_intermediate_size": 56,
        "norm_topk_prob": True, "decoder_sparse_step": 2, "mlp_only_layers": [],
    },
    "lfm2": {"conv_L_cache": 3, "conv_bias": False, "block_auto_adjust_ff_dim": False, "norm_eps": 1e-5},
    "zaya": {
        "hidden_act": "silu", "attention_bias": False, "num_experts": 5, "moe_intermediate_size": 36,
        "router_hidden_size": 24, "cca_time0": 3, "cca_time1": 2, "sliding_window": 40, "rope_parameters": {
            "hybrid": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
            "hybrid_sliding": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
        },
    },
    "gpt_oss": {
        "hidden_act": "silu", "attention_bias": True, "num_local_experts": 5, "num_experts_per_tok": 2,
        "sliding_window": 40,
    },
}  # fmt: skip
CLASSES: dict[Family, str] = {
    "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral", "starcoder2": "Starcoder2",
    "gemma": "Gemma", "gemma2": "Gemma2", "gemma3_text": "Gemma3", "cohere2": "Cohere2", "granite": "Granite",
    "efim": "Efim", "mixtral": "Mixtral", "qwen2_moe": "Qwen2Moe", "qwen3_moe": "Qwen3Moe", "gpt_oss": "GptOss",
    "granitemoe": "GraniteMoe", "ernie4_5_moe": "Ernie4_5_Moe", "deepseek_v2": "DeepseekV2",
    "deepseek_v3": "DeepseekV3", "mamba2": "Mamba2", "bamba": "Bamba", "granitemoehybrid": "GraniteMoeHybrid",
    "falcon_h1": "FalconH1", "qwen3_next": "Qwen3Next", "lfm2": "Lfm2", "gemma3n_text": "Gemma3n",
    "glm4_moe_lite": "Glm4MoeLite", "llama_swiftkv": "LlamaSwiftKV", "zaya": "Zaya",
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
    """Shape of a tiny model; head_dim is not hidden / heads, so that no code may take one for the other.

    `window` is that of a family whose models have one or not; of llama_swiftkv `groups` layers share keys.
    """

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
    window: int = 0
    groups: int = 1


LLAMA = Tiny()


def make(folder: Path, tiny: Tiny = LLAMA, *, half: bool = False) -> Path:
    """Write config.json, model.safetensors (bfloat16 if `half`) and tokenizer.json to a folder; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(tiny), indent=1), encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    dtype = torch.bfloat16 if half else torch.float32
    weights = {stored_name(tiny.family, name): tensor.to(dtype) for name, tensor in random_weights(tiny).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def config(tiny: Tiny) -> dict[str, Any]:
    """The config.json of a tiny model: Qwen's as transformers 5 spells it, the others' as transformers 4 does."""
    rope: dict[str, Any] = {"rope_theta": tiny.theta}
    scaling = SCALINGS.get(tiny.scaling)
    if tiny.family.startswith(("qwen2", "qwen3")):
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
        **_layer_types(tiny),
        **FIELDS[tiny.family],
        **({"key_value_group_size": tiny.groups} if tiny.groups > 1 else {}),
        **(WINDOWS | {"sliding_window": tiny.window} if tiny.window else {}),
        **rope,
    }


WINDOWS = {"use_sliding_window": True, "max_window_layers": 1}
FIRST_LAYERS = {
    "granitemoehybrid": "linear_attention", "qwen3_next": "linear_attention", "lfm2": "conv",
    "gemma3n_text": "sliding_attention", "gpt_oss": "sliding_attention",
}  # fmt: skip


def _layer_types(tiny: Tiny) -> dict[str, Any]:
    """Which layers of hybrids attend, or see all: every other one, the first of which does not."""
    if tiny.family == "zaya":
        return {"layer_types": (["hybrid_sliding", "hybrid"] * tiny.layers)[: tiny.layers]}
    if (first := FIRST_LAYERS.get(tiny.family)) is None:
        return {}
    kinds = {"layer_types": ([first, "full_attention"] * tiny.layers)[: tiny.layers]}
    if tiny.family != "gemma3n_text":
        return kinds
    return kinds | {"activation_sparsity_pattern": [0.9] + [0.0] * (tiny.layers - 1)}


def reference(folder: Path) -> torch.nn.Module:
    """The model that decoders are compared with, in fp32: transformers', the trainer's for its family, or ours."""
    family = read_config(folder).family
    if family == "llama_swiftkv":
        return SwiftKv(folder)
    if family != "efim":
        how = {"dtype": torch.float32, "attn_implementation": "eager"}  # which alone caps scores and has sinks
        return AutoModelForCausalLM.from_pretrained(folder, **how).eval()
    model = network.build(network.read_shape(folder))
    load_model(model, folder / "model.safetensors")
    return model.eval()


def reshaped(shape: ModelConfig, *, layers: int | None = None, **others: Any) -> ModelConfig:
    """The same model with other fields, its own or of the parts of layers; further layers are as the first."""
    of_parts = {field.name for part in (Full, Latent, Dense, Experts) for field in fields(part)}
    specs = (shape.layers + (shape.alike,) * (layers or 0))[: layers or len(shape.layers)]
    made = [replace(spec, attention=_with(spec.attention, others), mlp=_with(spec.mlp, others)) for spec in specs]
    of_model = {name: value for name, value in others.items() if name not in of_parts}
    return replace(shape, layers=tuple(made), **of_model)


def _with(part: Any, others: dict[str, Any]) -> Any:
    """A part of a layer, or none, with those of the fields that it has."""
    found = () if part is None else fields(part)
    return part and replace(part, **{field.name: others[field.name] for field in found if field.name in others})


Weights = dict[str, torch.Tensor]


def random_weights(tiny: Tiny) -> Weights:
    """Weights by name, large enough that logits are spread and depend on far more than the last token."""
    generator = torch.Generator().manual_seed(tiny.seed)

    def normal(*shape: int, std: float) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * std

    def add_norm(name: str, size: int = tiny.hidden) -> None:
        weights[f"{name}.weight"] = normal(size, std=0.1) + (tiny.family not in ADD_ONE)
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
        for name in _norms(tiny.family):
            add_norm(f"{at}{name}_layernorm")
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            add_matrix(f"{at}self_attn.{name}_proj", rows, tiny.hidden, 1.5)
        if tiny.family in ("qwen3", "qwen3_moe", "qwen3_next", "gemma3_text", "gemma3n_text", "efim", "lfm2"):
            add_norm(at + "self_attn.q_norm", tiny.head_dim)
            add_norm(at + "self_attn.k_norm", tiny.head_dim)
        if tiny.family == "efim":
            weights[at + "self_attn.head_gates.weight"] = normal(tiny.heads, GATE_INPUTS, std=0.3)
        add_matrix(at + "self_attn.o_proj", tiny.hidden, q, 1.5)
        ups, down = (["c_fc"], "c_proj") if tiny.family == "starcoder2" else (["gate_proj", "up_proj"], "down_proj")
        for name in ups:
            add_matrix(f"{at}mlp.{name}", tiny.intermediate, tiny.hidden)
        add_matrix(f"{at}mlp.{down}", tiny.hidden, tiny.intermediate, 1.5)
    return _with_experts(weights, tiny, generator)


def _with_experts(weights: Weights, tiny: Tiny, generator: torch.Generator) -> Weights:
    """The tensors that a configuration asks for: those of experts and sinks are drawn, dense parts go."""
    made: Weights = {}
    for name, shape in expected_shapes(parse_config(config(tiny))).items():
        spread = shape[-1] ** -0.5 if len(shape) > 1 else 0.5
        spread = 0.05 if name.endswith("balancing_biases") else spread  # or they alone choose
        is_norm = name.endswith("norm.weight") and (tiny.family not in ADD_ONE or ".state." in name)
        is_scale = is_norm or name.endswith(("_states_scale", "residual_scale", "qk_norm.temp"))
        middle = 1.0 if is_scale else -2.0 if name.endswith("A_log") else 0.0  # so that memory fades little
        known = weights.get(name)
        if known is None or known.shape != shape:
            known = torch.randn(shape, generator=generator) * spread + middle
        made[name] = known
    return made


def _norms(family: Family) -> Sequence[str]:
    if family == "cohere2":
        return ("input",)
    more = ("pre_feedforward", "post_feedforward") if family in (*GEMMAS[1:], "gemma3n_text") else ()
    return ("input", "post_attention", *more)


def _has_bias(family: Family, name: str) -> bool:
    of_input = name.endswith(("q_proj", "k_proj", "v_proj"))
    of_attention = of_input or name.endswith("o_proj")
    return (
        family in ("starcoder2", "granite")
        or (family in ("qwen2", "qwen2_moe") and of_input)
        or (family == "gpt_oss" and of_attention)
    )


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
