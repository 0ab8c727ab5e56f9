"""Reads a checkpoint's safetensors files; nothing else is ever read as weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file  # pyright: ignore[reportUnknownVariableType]

from model_runtime.config import ModelConfig
from model_runtime.errors import ModelError

Weights = dict[str, torch.Tensor]


def read_weights(folder: Path, config: ModelConfig) -> Weights:
    """Load every tensor of a checkpoint, sharded or not, and check that none is missing or misshapen."""
    weights: Weights = {}
    for path in weight_files(folder):
        try:
            weights |= load_file(path)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    _check(weights, config)
    return weights


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint; ModelError where one is missing."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        raise ModelError(f"{folder} holds no model.safetensors: convert the weights, nothing else is read")
    try:
        named = cast(dict[str, Any], json.loads(index.read_text(encoding="utf-8")))["weight_map"].values()
        paths = [folder / name for name in sorted(set(cast(list[str], list(named))))]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelError(f"{index} cannot be read ({error!r}): fetch the model again") from None
    for path in paths:
        if not path.is_file() or path.parent != folder:
            raise ModelError(f"shard {path} is missing: fetch the model again")
    return paths


def _check(weights: Weights, config: ModelConfig) -> None:
    for name, shape in expected_shapes(config).items():
        if name not in weights:
            raise ModelError(f"the weights lack {name}, which config.json asks for: fetch the model again")
        if tuple(weights[name].shape) != shape:
            found = tuple(weights[name].shape)
            raise ModelError(f"{name} has shape {found}, config.json asks for {shape}: fetch the model again")
    if any(name.startswith(f"model.layers.{config.layers}.") for name in weights):
        raise ModelError(f"the weights have more layers than config.json's {config.layers}: fetch the model again")


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that the decoder needs, as transformers names them."""
    c, q, kv = config, config.heads * config.head_dim, config.kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (c.vocab, c.hidden),
        "model.norm.weight": (c.hidden,),
    }
    if not c.tied:
        shapes["lm_head.weight"] = (c.vocab, c.hidden)
    for i in range(c.layers):
        at = f"model.layers.{i}."
        shapes[at + "input_layernorm.weight"] = shapes[at + "post_attention_layernorm.weight"] = (c.hidden,)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            shapes[f"{at}self_attn.{name}_proj.weight"] = (rows, c.hidden)
            if c.family == "qwen2":
                shapes[f"{at}self_attn.{name}_proj.bias"] = (rows,)
        shapes[at + "self_attn.o_proj.weight"] = (c.hidden, q)
        shapes[at + "mlp.gate_proj.weight"] = shapes[at + "mlp.up_proj.weight"] = (c.intermediate, c.hidden)
        shapes[at + "mlp.down_proj.weight"] = (c.hidden, c.intermediate)
    return shapes
