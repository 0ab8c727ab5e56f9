"""Reads a checkpoint's safetensors files; nothing else is ever read as weights."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file  # pyright: ignore[reportUnknownVariableType]

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.hub.names import hub_origin
from model_runtime.checkpoint.weight_files import weight_files
from model_runtime.errors import ModelError

Weights = dict[str, torch.Tensor]

WEIGHT_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)  # formats that weights are stored in


def read_weights(folder: Path, config: ModelConfig) -> Weights:
    """Load every tensor of a checkpoint, sharded or not; ModelError if one is missing or has a wrong shape."""
    weights: Weights = {}
    for path in weight_files(folder):
        try:
            weights |= load_file(path)
        except (SafetensorError, OSError) as error:
            remedy = (
                f"remove {path.resolve()}, and it is fetched again"
                if hub_origin(folder)[1]
                else "fetch the model again"
            )
            raise ModelError(f"{path} cannot be read ({error}): {remedy}") from None
    _check(weights, config)
    return weights


def count_parameters(weights: Weights) -> int:
    """Return the number of parameters."""
    return sum(tensor.numel() for tensor in weights.values())


def _check(weights: Weights, config: ModelConfig) -> None:
    for name, shape in expected_shapes(config).items():
        if name not in weights:
            raise ModelError(f"the weights lack {name}, which config.json asks for: fetch the model again")
        _check_tensor(name, weights[name], shape)
    if any(name.startswith(f"model.layers.{config.layers}.") for name in weights):
        raise ModelError(f"the weights have more layers than config.json's {config.layers}: fetch the model again")


def _check_tensor(name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        found = tuple(tensor.shape)
        raise ModelError(f"{name} has shape {found}, config.json asks for {shape}: fetch the model again")
    if tensor.dtype not in WEIGHT_DTYPES:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise ModelError(f"{name} is of {kind}, which is quantized: use the unquantized model")
    if not tensor.sum(dtype=torch.float32).isfinite():  # the model would produce nonsense
        raise ModelError(f"{name} contains NaN or infinity: fetch the model again")


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return names (transformers' own) and shapes of the tensors that the decoder needs."""
    c = config
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c.vocab, c.hidden)}
    _add_norm(shapes, c, "model.norm")
    if not c.tied:
        shapes["lm_head.weight"] = (c.vocab, c.hidden)
    for i in range(c.layers):
        at = f"model.layers.{i}."
        _add_norm(shapes, c, at + "input_layernorm")
        _add_norm(shapes, c, at + "post_attention_layernorm")
        for name, out, into, biased in _products(c):
            shapes[f"{at}{name}.weight"] = (out, into)
            if biased:
                shapes[f"{at}{name}.bias"] = (out,)
        if c.head_norms:
            shapes[at + "self_attn.q_norm.weight"] = shapes[at + "self_attn.k_norm.weight"] = (c.head_dim,)
    return shapes


def _add_norm(shapes: dict[str, tuple[int, ...]], config: ModelConfig, name: str) -> None:
    shapes[f"{name}.weight"] = (config.hidden,)
    if config.norm == "layer":
        shapes[f"{name}.bias"] = (config.hidden,)


def _products(config: ModelConfig) -> list[tuple[str, int, int, bool]]:
    """Return each matrix of a layer: name, outputs, inputs, and whether it has a bias."""
    c, q, kv = config, config.heads * config.head_dim, config.kv_heads * config.head_dim
    up, down = (("gate_proj", "up_proj"), "down_proj") if c.gated else (("c_fc",), "c_proj")
    return [
        ("self_attn.q_proj", q, c.hidden, c.qkv_bias),
        ("self_attn.k_proj", kv, c.hidden, c.qkv_bias),
        ("self_attn.v_proj", kv, c.hidden, c.qkv_bias),
        ("self_attn.o_proj", c.hidden, q, c.out_bias),
        *((f"mlp.{name}", c.intermediate, c.hidden, c.mlp_bias) for name in up),
        (f"mlp.{down}", c.hidden, c.intermediate, c.mlp_bias),
    ]
