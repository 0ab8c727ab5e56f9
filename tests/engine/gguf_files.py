"""GGUF files made of checkpoints, with llama.cpp's own package and its names: as its conversion writes them."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import as_fp32, read_weights

gguf: Any = import_module("gguf")  # types are checked without it, too
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
ARCHITECTURES = {"qwen3_moe": "qwen3moe"}
TURNED = ("llama", "granite")  # two halves of a head are rotated in transformers, neighbours in llama.cpp
EXPERT = re.compile(r"\.experts\.\d+\.")
LOOKS_SPECIAL = re.compile(
    r"<\|.*\|>|<｜.*｜>|<unused\d+>|<pad>|<mask>|<2mass>|\[@BOS@\]"
)  # to llama.cpp's conversion
GRANITE = {
    "embedding_multiplier": "embedding_scale",
    "attention_multiplier": "attention.scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}


def write(path: Path, folder: Path, kind: str = "F32", pre: str = "qwen2", parts: int = 1, **values: Any) -> Path:
    """Write the model in a folder with matrices of a kind; further `values` by their keys, with _ for the dots."""
    raw = json.loads((folder / "config.json").read_text())
    name = str(ARCHITECTURES.get(raw["model_type"], raw["model_type"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = tensors_of(folder, name)
    most = -(-len(tensors) // parts) if parts > 1 else 0
    writer = gguf.GGUFWriter(path, name, split_max_tensors=most)
    describe(writer, raw)
    add_tokenizer(writer, json.loads((folder / "tokenizer.json").read_text("utf-8")), raw["vocab_size"], pre)
    for key, value in values.items():
        writer.add_key_value(key.replace("__", "."), value, gguf.GGUFValueType.get_type(value))
    for each, tensor in tensors.items():
        is_whole = kind in ("F32", "F16", "BF16") or tensor.shape[-1] % 32 == 0
        stored = gguf.GGMLQuantizationType[kind if tensor.ndim > 1 and is_whole else "F32"]
        numbers = gguf.quantize(np.ascontiguousarray(tensor), stored)
        writer.add_tensor(each, numbers, raw_dtype=stored)
    close(writer)
    return path


def close(writer: Any) -> None:
    """Write what was added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(writer: Any, raw: dict[str, Any]) -> None:
    """Add the shape of a model, by its config.json."""
    writer.add_context_length(raw["max_position_embeddings"])
    writer.add_embedding_length(raw["hidden_size"])
    writer.add_block_count(raw["num_hidden_layers"])
    writer.add_feed_forward_length(raw["intermediate_size"])
    writer.add_head_count(raw["num_attention_heads"])
    writer.add_head_count_kv(raw["num_key_value_heads"])
    writer.add_key_length(raw["head_dim"])
    writer.add_value_length(raw["head_dim"])
    rope = raw.get("rope_parameters", raw)
    writer.add_rope_freq_base(rope["rope_theta"])
    scaling = raw.get("rope_scaling", rope)
    if (kind := scaling.get("rope_type", "default")) in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(scaling["factor"])
        if kind == "yarn":
            writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if "norm_epsilon" in raw:
        writer.add_layer_norm_eps(raw["norm_epsilon"])
    else:
        writer.add_layer_norm_rms_eps(raw["rms_norm_eps"])
    for field, key in GRANITE.items():
        if field in raw:
            writer.add_float32(f"granite.{key}", raw[field])
    if "num_experts" in raw:
        writer.add_expert_count(raw["num_experts"])
        writer.add_expert_used_count(raw["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(raw["moe_intermediate_size"])


def add_tokenizer(writer: Any, described: dict[str, Any], size: int = 0, pre: str = "qwen2") -> None:
    """Add the tokens of a tokenizer.json, with what a model has beyond them, and the ids of its markers."""
    model, added = described["model"], {each["content"]: each for each in described["added_tokens"]}
    merges = [tuple(each.split(" ")) if isinstance(each, str) else each for each in model["merges"]]
    vocab = model["vocab"] | {name: each["id"] for name, each in added.items()}
    tokens = {i: name for name, i in vocab.items()}
    count = max(size, max(tokens) + 1)
    names = [tokens.get(i, f"[PAD{i}]") for i in range(count)]
    control = {name for name, each in added.items() if each["special"] or LOOKS_SPECIAL.fullmatch(name)}
    types = [kind_of(name, control, added, name in vocab) for name in names]
    is_piece = bool(model.get("byte_fallback"))
    writer.add_tokenizer_model("llama" if is_piece else "gpt2")
    writer.add_token_list(names)
    writer.add_token_types(types)
    if is_piece:
        first = {"".join(pair): -float(rank) for rank, pair in reversed([*enumerate(merges)])}
        writer.add_token_scores([first.get(name, -1e6) for name in names])
    else:
        writer.add_tokenizer_pre(pre)
        writer.add_token_merges([" ".join(pair) for pair in merges])
    bos = described.get("post_processor") and next(iter(described["post_processor"].get("special_tokens", {})), None)
    writer.add_add_bos_token(bool(bos))
    if bos:
        writer.add_bos_token_id(vocab[bos])
    if "<|endoftext|>" in vocab:
        writer.add_eos_token_id(vocab["<|endoftext|>"])


def kind_of(name: str, control: set[str], added: dict[str, Any], known: bool) -> int:
    """Return the type of a token."""
    if not known or name in control:
        return CONTROL if known else 5
    return USER_DEFINED if name in added else NORMAL


def tensors_of(folder: Path, architecture: str) -> dict[str, npt.NDArray[np.float32]]:
    """Return the tensors of a model by llama.cpp's names, in its layout."""
    config = read_config(folder)
    weights = {name: as_fp32(each) for name, each in read_weights(folder, config).items()}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.upper()], len(config.layers))
    experts = dict[str, list[npt.NDArray[np.float32]]]()
    for name, tensor in weights.items():
        if architecture in TURNED and any(each in name for each in ("q_proj", "k_proj")):
            halves = tensor.reshape(-1, 2, config.full.head_dim // 2, *tensor.shape[1:])
            tensor = halves.swapaxes(1, 2).reshape(tensor.shape)
        if architecture == "gemma" and name.endswith("norm.weight"):
            tensor = tensor + np.float32(1)
        module, _, suffix = EXPERT.sub(".experts.", name).rpartition(".")
        experts.setdefault(f"{names.get_name(module)}.{suffix}", []).append(tensor)
    found = {name: np.stack(each) if len(each) > 1 else each[0] for name, each in experts.items()}
    rope = config.full.rope
    if rope.kind == "llama3":
        found["rope_freqs.weight"] = llama3_table(folder)
    return found


def llama3_table(folder: Path) -> npt.NDArray[np.float32]:
    """Return what each wave's length is multiplied by, as transformers computes it."""
    config = AutoConfig.from_pretrained(folder)
    theta, size = config.rope_parameters["rope_theta"], config.head_dim
    stretched, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    return (theta ** -(np.arange(0, size, 2) / size) / stretched.numpy()).astype(np.float32)
