"""Writes a checkpoint as a GGUF file, so that llama.cpp computes with the same weights."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Experts
from model_runtime.checkpoint.gguf.tensors import own_name
from model_runtime.checkpoint.weights import Fp32, Weights, as_fp32

gguf: Any = import_module("gguf")  # types are checked without it, too
Kind = Literal["F16", "Q8_0"]
ARCHITECTURES = {"qwen3_moe": "qwen3moe"}  # of families that it names differently
EXPERT = re.compile(r"(model\.layers\.\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight")

MARKERS = {
    "fim_pre": "<|fim_prefix|>",
    "fim_suf": "<|fim_suffix|>",
    "fim_mid": "<|fim_middle|>",
    "eos": "<|endoftext|>",
}
CUT_LIKE = "qwen2"  # cuts pieces as our tokenizers do, except for contractions as in `it's`
NORMAL, CONTROL = 1, 3  # of llama.cpp's types of tokens


def write(path: Path, config: ModelConfig, weights: Weights, kind: Kind, tokenizer: Path | None = None) -> None:
    """Write matrices as F16 or Q8_0 and vectors as F32; without one of our tokenizers, the file has only token ids.

    Rows must have a multiple of 32 weights for Q8_0. The head is left out where the model has no separate head.
    """
    writer = gguf.GGUFWriter(path, ARCHITECTURES.get(config.family, config.family))
    _describe(writer, config)
    if tokenizer is None:
        writer.add_tokenizer_model("no_vocab")
    else:
        _add_vocabulary(writer, json.loads(tokenizer.read_text("utf-8")), config.vocab)
    for name, tensor in weights.items():
        if EXPERT.fullmatch(name) or (config.tied and name.startswith("lm_head.")):
            continue
        _add(writer, own_name(name)[0], _ordered(name, as_fp32(tensor), config), kind)
    for name, experts in _joined_experts(weights).items():
        _add(writer, name, np.stack(experts), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: Any, config: ModelConfig) -> None:
    attention, mlp = config.full, config.dense
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.hidden)
    writer.add_block_count(len(config.layers))
    writer.add_feed_forward_length(mlp.intermediate or config.hidden)
    writer.add_head_count(attention.heads)
    writer.add_rope_freq_base(attention.rope.theta)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_vocab_size(config.vocab)
    writer.add_head_count_kv(attention.kv_heads)
    writer.add_key_length(attention.head_dim)
    writer.add_value_length(attention.head_dim)
    writer.add_rope_dimension_count(attention.head_dim)
    experts = [layer.mlp for layer in config.layers if isinstance(layer.mlp, Experts)]
    if experts:
        _describe_experts(writer, experts[0])


def _add_vocabulary(writer: Any, described: Any, size: int) -> None:
    special = {each["content"]: each["id"] for each in described["added_tokens"]}
    tokens = {number: text for text, number in (described["model"]["vocab"] | special).items()}
    controls = {*special.values(), *range(len(tokens), size)}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(CUT_LIKE)
    writer.add_token_list([tokens.get(number, f"<|unused {number}|>") for number in range(size)])
    writer.add_token_types([CONTROL if number in controls else NORMAL for number in range(size)])
    writer.add_token_merges([" ".join(pair) for pair in described["model"]["merges"]])
    writer.add_add_bos_token(False)
    for name, text in MARKERS.items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", special[text])


def _describe_experts(writer: Any, experts: Experts) -> None:
    writer.add_expert_count(experts.count)
    writer.add_expert_used_count(experts.chosen)
    writer.add_expert_feed_forward_length(experts.intermediate)
    writer.add_expert_weights_scale(experts.scale)
    writer.add_expert_weights_norm(experts.normalized)


def _joined_experts(weights: Weights) -> dict[str, list[Fp32]]:
    """Return the experts of each layer, one after the other, by the name of the tensor that holds all."""
    found: dict[str, list[Fp32]] = {}
    matches = [match for name in weights if (match := EXPERT.fullmatch(name))]
    for match in sorted(matches, key=lambda match: int(match[2])):
        layer = match[1].rpartition(".")[2]
        name = f"blk.{layer}.ffn_{match[3]}_exps.weight"
        found.setdefault(name, []).append(as_fp32(weights[match[0]]))
    return found


def _add(writer: Any, name: str, tensor: Fp32, kind: Kind) -> None:
    stored = gguf.GGMLQuantizationType[kind if tensor.ndim > 1 else "F32"]
    numbers = gguf.quantize(np.ascontiguousarray(tensor), stored)
    writer.add_tensor(name, numbers, raw_dtype=stored)


def _ordered(name: str, rows: Fp32, config: ModelConfig) -> Fp32:
    """For Llama, llama.cpp turns neighbouring dimensions where transformers turns the two halves of a head."""
    if config.family != "llama" or not name.endswith(("q_proj.weight", "k_proj.weight")):
        return rows
    halves = rows.reshape(-1, 2, config.full.head_dim // 2, rows.shape[1])
    return halves.swapaxes(1, 2).reshape(rows.shape)
