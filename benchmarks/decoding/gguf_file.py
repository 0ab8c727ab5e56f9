"""Writes a checkpoint as a GGUF file, so that llama.cpp computes with the same weights."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Fp32, Weights, as_fp32

gguf: Any = import_module("gguf")  # types are checked without it, too
Kind = Literal["F16", "Q8_0"]
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write(path: Path, config: ModelConfig, weights: Weights, kind: Kind) -> None:
    """Write matrices as F16 or Q8_0 and vectors as F32; the file has no vocabulary, only token ids.

    Rows must have a multiple of 32 weights for Q8_0. A head of its own is left out where the model has none.
    """
    writer = gguf.GGUFWriter(path, config.family)
    _describe(writer, config)
    for name, tensor in weights.items():
        if not (config.tied and name.startswith("lm_head.")):
            _add(writer, _name(name), _ordered(name, as_fp32(tensor), config), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: Any, config: ModelConfig) -> None:
    attention, mlp = config.alike.attention, config.alike.mlp
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.hidden)
    writer.add_block_count(len(config.layers))
    writer.add_feed_forward_length(mlp.intermediate)
    writer.add_head_count(attention.heads)
    writer.add_head_count_kv(attention.kv_heads)
    writer.add_key_length(attention.head_dim)
    writer.add_value_length(attention.head_dim)
    writer.add_rope_dimension_count(attention.head_dim)
    writer.add_rope_freq_base(config.rope.theta)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_vocab_size(config.vocab)
    writer.add_tokenizer_model("no_vocab")


def _add(writer: Any, name: str, tensor: Fp32, kind: Kind) -> None:
    stored = gguf.GGMLQuantizationType[kind if tensor.ndim > 1 else "F32"]
    numbers = gguf.quantize(np.ascontiguousarray(tensor), stored)
    writer.add_tensor(name, numbers, raw_dtype=stored)


def _name(name: str) -> str:
    """llama.cpp's name of a tensor that transformers names so."""
    module, _, suffix = name.rpartition(".")
    if module in OUTSIDE:
        return f"{OUTSIDE[module]}.{suffix}"
    _, _, layer, inside = module.split(".", 3)
    return f"blk.{layer}.{NAMES[inside]}.{suffix}"


def _ordered(name: str, rows: Fp32, config: ModelConfig) -> Fp32:
    """For Llama, llama.cpp turns neighbouring dimensions where transformers turns the two halves of a head."""
    if config.family != "llama" or not name.endswith(("q_proj.weight", "k_proj.weight")):
        return rows
    halves = rows.reshape(-1, 2, config.alike.attention.head_dim // 2, rows.shape[1])
    return halves.swapaxes(1, 2).reshape(rows.shape)
