"""The compact form as its reader understands it, written without the workshop; and what is computed with it."""

from __future__ import annotations

import hashlib
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.tensor_shapes import TOKEN_VALUES
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.quantization import quantized
from model_runtime.decoder.weights.layer import fused, head, norm, token_values
from model_runtime.decoder.weights.product import Product
from tests.models import Tiny, make

TABLE, MATRIX = "model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"
WEIGHTS = "model.safetensors"


def exported(folder: Path, tiny: Tiny) -> Path:
    """A tiny model in fp16, as a run exports it."""
    path = make(folder, tiny) / WEIGHTS
    save_file({name: weight.astype(np.float16) for name, weight in load_file(path).items()}, path)
    return folder


def write_compact(model: Path, out: Path) -> Path:
    """Write an exported model in the compact form; return the folder."""
    shutil.copytree(model, out)
    stored = dict[str, npt.NDArray[Any]]()
    for name, weight in load_file(model / WEIGHTS).items():
        if name in (TABLE, TOKEN_VALUES):
            low, high = (plane.tobytes() for plane in weight.view(np.uint8).reshape(-1, 2).T)
            stored |= {f"{name}.low": deflated(low), f"{name}.high": deflated(high)}
        elif name.endswith("_proj.weight"):
            digits = deflated(quantized(weight)[0].tobytes())
            stored |= {f"{name}.digits": digits, f"{name}.largest": np.abs(weight).max(1)}
        else:
            stored[name] = weight
    save_file(stored, out / WEIGHTS, {"format": "efim-ls compact 1"})
    return out


def deflated(content: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(zlib.compress(content), np.uint8)


def computed_with(folder: Path) -> str:
    """A hash of all numbers that the compiled decoder computes with in int8, but for rotations."""
    config, digest = read_config(folder), hashlib.sha256()
    weights = read_weights(folder, config)
    layers = [fused(config, weights, index) for index in range(len(config.layers))]
    tables = weights[TABLE], token_values(config, weights)
    for array in numbers((layers, norm(config, weights, "model.norm"), Product(head(config, weights), None), tables)):
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def numbers(of: Any) -> Iterator[npt.NDArray[Any]]:
    if isinstance(of, Product):
        yield from quantized(of.weight)
        yield from numbers(of.bias)
    elif isinstance(of, tuple | list):
        for each in of:
            yield from numbers(each)
    elif of is not None:
        yield of
