"""The sizes of model that speed is measured at: the embedded one, and random weights in larger shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from transformers import AutoConfig

from model_runtime.checkpoint.config import EMBEDDED, ModelConfig, parse_config, read_config, read_json
from model_runtime.checkpoint.weights import expected_shapes, read_weights

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


def checkpoint(size: str, folder: Path) -> Path:
    """The folder of a model of one of SHAPES; random weights are written to `folder` as fp16, from one seed."""
    if not SHAPES[size]:
        return EMBEDDED
    folder.mkdir(parents=True, exist_ok=True)
    AutoConfig.for_model(**SHAPES[size], max_position_embeddings=4096, tie_word_embeddings=True).save_pretrained(
        folder
    )
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
    return {name: _random(shape, generator) for name, shape in expected_shapes(config).items()}


def _random(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if len(shape) == 1:
        return torch.randn(shape, generator=generator).mul_(0.1).add_(1).half()
    return torch.randn(shape, generator=generator).mul_(shape[-1] ** -0.5).half()
