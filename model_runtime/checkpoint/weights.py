"""Reads a checkpoint's safetensors files; nothing else is ever read as weights. Needs no torch."""

from __future__ import annotations

import errno
import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.hub.names import hub_origin
from model_runtime.checkpoint.tensor_names import stored_name
from model_runtime.checkpoint.tensor_shapes import LOOKED_UP, expected_shapes
from model_runtime.checkpoint.weight_files import weight_files
from model_runtime.errors import ModelError
from model_runtime.mapped_memory import release_pages

Weights = dict[str, npt.NDArray[Any]]  # in the format that they are stored in, see `as_fp32`
Fp32 = npt.NDArray[np.float32]

BF16 = np.dtype([("bf16", "<u2")])  # numpy has no bf16: as a field, its bits cannot be taken for numbers
DTYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": BF16}
EXPONENTS = {DTYPES["F16"]: 0x7C00, BF16: 0x7F80}  # bits that are all set in NaN and infinity, and in no number


# Their checkpoints end with layers that predict tokens further ahead, which nothing here asks.
PREDICTS_FURTHER = ("deepseek_v3", "glm4_moe_lite")


class StoredTensor(NamedTuple):
    """A tensor's bytes in its file, its format as safetensors names it, and its shape."""

    content: npt.NDArray[np.uint8]
    dtype: str
    shape: tuple[int, ...]


def read_weights(folder: Path, config: ModelConfig) -> Weights:
    """Map every tensor of a checkpoint, sharded or not; ModelError if one is missing or has a wrong shape.

    Those that are expected have the names of `expected_shapes`, whatever their family calls them.
    Nothing is copied: pages are read when they are used, and a file stays mapped as long as one of its tensors is.
    """
    stored: dict[str, StoredTensor] = {}
    for path in weight_files(folder):
        try:
            stored.update(_stored(path))
        except (SafetensorError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOMEM:
                raise MemoryError(str(error)) from error  # the file is whole, and cannot be mapped
            remedy = (
                f"remove {path.resolve()}, and it is fetched again"
                if hub_origin(folder)[1]
                else "fetch the model again"
            )
            raise ModelError(f"{path} cannot be read ({error}): {remedy}") from None
    _check(stored, config)
    usual = {stored_name(config.family, name): name for name in expected_shapes(config)}
    weights = {
        usual.get(name, name): tensor.content.view(DTYPES[tensor.dtype]).reshape(tensor.shape)
        for name, tensor in stored.items()
        if tensor.dtype in DTYPES
    }
    for own, name in usual.items():
        if not _is_finite(weights[name]):  # the model would produce nonsense
            raise ModelError(f"{own} contains NaN or infinity: fetch the model again")
    return weights


def as_fp32(*parts: npt.NDArray[Any]) -> Fp32:
    """Join weights as fp32, which holds fp16 and bf16 exactly; one that is stored so is not copied."""
    first = parts[0]
    if len(parts) == 1 and first.dtype == np.float32:
        return first
    joined, start = np.empty((sum(map(len, parts)), *first.shape[1:]), dtype=np.float32), 0
    for part in parts:
        rows = joined[start : start + len(part)]
        if part.dtype == BF16:
            np.left_shift(part.view(np.uint16), 16, out=rows.view(np.uint32), dtype=np.uint32)
        else:
            rows[...] = part
        start += len(part)
    return joined


def count_parameters(weights: Weights) -> int:
    """Return the number of parameters that passes compute with: all but those that are looked up by token."""
    return sum(weight.size for name, weight in weights.items() if name not in LOOKED_UP)


def _stored(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the tensors of a file, whose header safetensors checks: sizes fit shapes, and places fit the file."""
    with safe_open(path, "numpy"):
        pass
    with path.open("rb") as file:  # private pages: torch warns of tensors that it must not write
        content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), dtype=np.uint8)
    begin = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = cast("dict[str, dict[str, Any]]", json.loads(content[8:begin].tobytes()))
    for name, tensor in header.items():
        if name != "__metadata__":
            start, end = (begin + offset for offset in tensor["data_offsets"])
            yield name, StoredTensor(content[start:end], tensor["dtype"], tuple(tensor["shape"]))


def release_weights(weights: Weights) -> None:
    """Take mapped files out of this process' memory; a weight that is used again is read again."""
    for weight in weights.values():
        release_pages(weight)


def _check(stored: dict[str, StoredTensor], config: ModelConfig) -> None:
    for usual, shape in expected_shapes(config).items():
        name = stored_name(config.family, usual)
        if name not in stored:
            raise ModelError(f"the weights lack {name}, which config.json asks for: fetch the model again")
        _check_tensor(name, stored[name], shape)
    layers = len(config.layers)
    further = stored_name(config.family, f"model.layers.{layers}.")
    if config.family not in PREDICTS_FURTHER and any(name.startswith(further) for name in stored):
        raise ModelError(f"the weights have more layers than config.json's {layers}: fetch the model again")


def _check_tensor(name: str, tensor: StoredTensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        raise ModelError(f"{name} has shape {tensor.shape}, config.json asks for {shape}: fetch the model again")
    if tensor.dtype not in DTYPES:
        raise ModelError(f"{name} is of {tensor.dtype}, which is quantized: use the unquantized model")


def _is_finite(weight: npt.NDArray[Any]) -> bool:
    """Return whether a weight is without NaN and infinity; of 16 bits the exponent tells, quicker than numpy."""
    mask = EXPONENTS.get(weight.dtype)
    if mask is None:
        return bool(np.isfinite(weight).all())
    return not ((weight.view(np.uint16) & mask) == mask).any()
