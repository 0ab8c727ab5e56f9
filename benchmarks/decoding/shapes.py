"""The sizes of model that speed is measured at: the embedded one, and random weights in larger shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from transformers import AutoConfig

from model_runtime.checkpoint.config import ModelConfig, parse_config, read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.families.fields import read_json
from model_runtime.checkpoint.tensor_shapes import expected_shapes, stored_name
from model_runtime.checkpoint.weights import read_weights

SEED = 0
SMALLEST, LARGEST = "embedded", "0.5B"
SMALL = {"model_type": "llama", "vocab_size": 8192, "num_key_value_heads": 2, "head_dim": 64}
SHAPES: dict[str, dict[str, Any]] = {
    SMALLEST: {},
    "10M": SMALL | {"hidden_size": 384, "num_hidden_layers": 5, "num_attention_heads": 6, "intermediate_size": 1024},
    "30M": SMALL | {"hidden_size": 512, "num_hidden_layers": 10, "num_attention_heads": 8, "intermediate_size": 1376},
    # Qwen2-0.5B's
    LARGEST: {
        "model_type": "qwen2",
        "vocab_size": 151_936,
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "intermediate_size": 4864,
        "rope_theta": 1e6,
    },
}
# About a billion parameters each, of which a token is computed with 0.26.
BILLION = {
    "vocab_size": 65_536,
    "hidden_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "moe_intermediate_size": 384,
    "rope_theta": 1e6,
}
MIXTURE, LATENTS, STATES = "experts", "compressed keys", "states"
KINDS: dict[str, dict[str, Any]] = {
    MIXTURE: BILLION
    | {
        "model_type": "qwen3_moe",
        "num_key_value_heads": 4,
        "head_dim": 64,
        "intermediate_size": 3072,
        "num_experts": 48,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
    },
    LATENTS: BILLION
    | {
        "model_type": "deepseek_v2",
        "num_key_value_heads": 16,
        "intermediate_size": 3072,
        "first_k_dense_replace": 1,
        "n_routed_experts": 48,
        "n_shared_experts": 1,
        "num_experts_per_tok": 7,
        "q_lora_rank": None,
        "kv_lora_rank": 256,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
        "v_head_dim": 64,
        "topk_method": "greedy",
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 1.0,
    },
    # Falcon-H1-0.5B's layers, half of them
    STATES: {
        "model_type": "falcon_h1",
        "vocab_size": 32_768,
        "hidden_size": 1024,
        "num_hidden_layers": 18,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "intermediate_size": 2048,
        "mamba_d_ssm": 1536,
        "mamba_n_heads": 24,
        "mamba_d_head": 64,
        "mamba_d_state": 128,
        "mamba_n_groups": 1,
        "mamba_rms_norm": False,
        "rope_theta": 1e6,
    },
}
UPPER_HALF = {"swiftkv": True, "num_key_value_layers": 8, "key_value_group_size": 1}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 32_768,
    "hidden_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 3072,
}
GEMMA_3N = {
    "model_type": "gemma3n_text",
    "vocab_size": 32_768,
    "vocab_size_per_layer_input": 32_768,
    "hidden_size": 768,
    "hidden_size_per_layer_input": 96,
    "num_hidden_layers": 20,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": [3072] * 20,
    "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 4,
}
ONE_OF_EIGHT = {
    "vocab_size": 32_768,
    "hidden_size": 1024,
    "num_hidden_layers": 12,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_experts": 8,
    "moe_intermediate_size": 2048,
}
# What spares work in a prompt, and the same shape without it.
SPARED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SwiftKV, 8 of 16 layers": (LLAMA | UPPER_HALF | {"model_type": "llama_swiftkv"}, LLAMA),
    "shared keys, 10 of 20 layers": (GEMMA_3N | {"num_kv_shared_layers": 10}, GEMMA_3N | {"num_kv_shared_layers": 0}),
    # heads of half the stream's width that are convolved, and of all of it
    "convolved heads": (
        ONE_OF_EIGHT | {"model_type": "zaya", "num_attention_heads": 8},
        ONE_OF_EIGHT | {"model_type": "qwen3_moe", "num_attention_heads": 16, "num_experts_per_tok": 1},
    ),
}


def checkpoint(size: str, folder: Path) -> Path:
    """The folder of a model of one of SHAPES or KINDS; random weights go to `folder`."""
    shape = SHAPES[size] if size in SHAPES else KINDS[size]
    return write_random(shape, folder) if shape else EMBEDDED


def write_random(shape: dict[str, Any], folder: Path) -> Path:
    """Write a model of a shape to `folder`, with random weights in fp16, from one seed."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = shape["model_type"]
    others = {**shape, "model_type": kind.removesuffix("_swiftkv")}  # which transformers does not know
    made = AutoConfig.for_model(**others, max_position_embeddings=4096, tie_word_embeddings=True).to_dict()
    (folder / "config.json").write_text(json.dumps({**made, "model_type": kind}), "utf-8")
    save_file(random_weights(read_config(folder)), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def as_llama(folder: Path, target: Path) -> Path:
    """The folder, or of a model of our own family a Llama with its matrices alone, which other programs can compute.

    Its text means nothing; a pass costs what the model's would without head norms, gates and values of tokens.
    """
    config = read_config(folder)
    if config.family != "efim":
        return folder
    raw = {**read_json(folder / "config.json"), "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    weights, target = read_weights(folder, config), target / "llama"
    target.mkdir()
    (target / "config.json").write_text(json.dumps(raw), "utf-8")
    kept = {name: weights[name] for name in expected_shapes(parse_config(raw))}
    save_arrays(kept, target / "model.safetensors", metadata={"format": "pt"})
    return target


def random_weights(config: ModelConfig) -> dict[str, torch.Tensor]:
    """Weights by name, fp16, of a size that leaves activations about as large as they were."""
    generator = torch.Generator().manual_seed(SEED)
    shapes = expected_shapes(config).items()
    return {stored_name(config.family, name): _random(shape, generator) for name, shape in shapes}


def _random(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if len(shape) == 1:
        return torch.randn(shape, generator=generator).mul_(0.1).add_(1).half()
    return torch.randn(shape, generator=generator).mul_(shape[-1] ** -0.5).half()
