"""Writes a model as it ships: its matrices as the compiled decoder quantizes them, its tables deflated."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from efim_lab.gate.errors import WorkError
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.tensor_shapes import TOKEN_VALUES
from model_runtime.checkpoint.tensors.compact import DIGITS, HIGH, KIND, LARGEST, LOW, VERSION
from model_runtime.checkpoint.weight_files import SINGLE_FILE
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.quantization import quantized

TABLES = ("model.embed_tokens.weight", TOKEN_VALUES)


def write_compact(model: Path, out: Path) -> Path:
    """Write a model's folder anew with compact weights, which the compiled decoder computes the same answers with.

    Raises WorkError, or ModelError if the folder is no model.
    """
    config = read_config(model)
    _check_family(config)
    tensors = dict[str, npt.NDArray[Any]]()
    for name, weight in read_weights(model, config).items():
        if weight.dtype != np.float16:
            raise WorkError(f"{name} is not in fp16: name the folder that `run` exported")
        tensors |= _parts(name, weight)
    try:
        shutil.copytree(model, out, ignore=shutil.ignore_patterns(SINGLE_FILE), dirs_exist_ok=True)
        save_file(tensors, out / SINGLE_FILE, metadata={"format": f"{KIND} {VERSION}"})
    except (OSError, SafetensorError) as error:
        raise WorkError(f"cannot write {out} ({error}): make room there, or name another folder") from error
    (out / SINGLE_FILE).chmod(0o644)
    return out


def _check_family(config: ModelConfig) -> None:
    """Refuse models whose matrices are scaled before they are quantized: they would answer otherwise."""
    if config.family != "efim" or not config.full.head_norms:
        raise WorkError(f"a model of the family {config.family} has no compact form: name one with norms of heads")


def _parts(name: str, weight: npt.NDArray[np.float16]) -> dict[str, npt.NDArray[Any]]:
    if name in TABLES:
        planes = weight.view(np.uint8).reshape(-1, 2).T
        return {name + part: _deflated(plane) for part, plane in zip((LOW, HIGH), planes, strict=True)}
    if name.endswith("_proj.weight"):
        digits, _ = quantized(weight)
        return {name + DIGITS: _deflated(digits), name + LARGEST: np.abs(weight).max(1)}
    return {name: weight}


def _deflated(content: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Deflate without looking for repetitions: there are none, and reading is faster."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_HUFFMAN_ONLY)
    return np.frombuffer(deflate.compress(content.tobytes()) + deflate.flush(), np.uint8)
