"""Reads a checkpoint's safetensors or GGUF files; nothing else is ever read as weights. Needs no torch."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.gguf.header import read_header
from model_runtime.checkpoint.gguf.tensors import Blocks, find_tensors, own_name
from model_runtime.checkpoint.hub_names import hub_origin
from model_runtime.checkpoint.tensor_shapes import EMBEDDING, HEAD, expected_shapes, stored_name
from model_runtime.checkpoint.tensors.compact import (
    BF16,
    DTYPES,
    Fp32,
    QuantizedRows,
    StoredTensor,
    check_version,
    expanded,
    map_tensors,
)
from model_runtime.checkpoint.weight_files import gguf_file, weight_files
from model_runtime.errors import ModelError
from model_runtime.mapped_memory import release_pages

Weights = Mapping[str, npt.NDArray[Any]]  # in the format that they are stored in, see `as_fp32`

EXPONENTS = {DTYPES["F16"]: 0x7C00, BF16: 0x7F80}  # bits that are all set in NaN and infinity, and in no number
ROWS_AT_ONCE = 1024  # that are compared

# Their checkpoints end with layers that predict tokens further ahead, which nothing here asks.
PREDICTS_FURTHER = ("deepseek_v3", "glm4_moe_lite")


Stored = npt.NDArray[Any] | QuantizedRows | Blocks


class StoredWeights(Weights):
    """The weights of a checkpoint by name; a matrix that is quantized is widened each time it is asked for."""

    def __init__(self, weights: Mapping[str, Stored]) -> None:
        self._weights = weights

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        found = self._weights[name]
        return found if isinstance(found, np.ndarray) else found.widened()

    def table(self, name: str) -> npt.NDArray[Any] | Blocks:
        """Return a matrix whose rows are looked up; blocks stay as they are, and `take` widens rows alone."""
        found = self._weights[name]
        return found if isinstance(found, Blocks) else self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def release(self) -> None:
        """Take mapped files out of this process' memory; a weight that is used again is read again."""
        for weight in self._weights.values():
            if not isinstance(weight, QuantizedRows):
                release_pages(weight.content if isinstance(weight, Blocks) else weight)


def read_weights(folder: Path, config: ModelConfig) -> StoredWeights:
    """Map every tensor of a checkpoint, sharded or not; ModelError if one is missing or has a wrong shape.

    Those that are expected have the names of `expected_shapes`, whatever their family calls them. With a tied
    embedding there is a head only if it differs, as after a training that did not tie them.
    Nothing is copied except compact tensors: pages are read when they are used, and a file stays mapped as long as
    one of its tensors is.
    """
    if file := gguf_file(folder):
        return _of_gguf(file, config)
    stored: dict[str, StoredTensor] = {}
    for path in weight_files(folder):
        try:
            tensors, metadata = map_tensors(path)
        except (SafetensorError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOMEM:
                raise MemoryError(str(error)) from error  # the file is whole, and cannot be mapped
            remedy = (
                f"remove {path.resolve()}, and it is fetched again"
                if hub_origin(folder)[1]
                else "fetch the model again"
            )
            raise ModelError(f"{path} cannot be read ({error}): {remedy}") from None
        check_version(metadata)
        stored.update(tensors)
    shapes = expected_shapes(config)
    if stored_name(config.family, HEAD) in stored:
        shapes[HEAD] = shapes[EMBEDDING]
    whole = expanded(stored, {stored_name(config.family, name): shape for name, shape in shapes.items()})
    _check(whole, shapes, config)
    usual = {stored_name(config.family, name): name for name in shapes}
    weights = {usual.get(name, name): weight for name, weight in _arrays(whole)}
    for own, name in usual.items():
        if not _is_finite(weights[name]):  # the model would produce nonsense
            raise ModelError(f"{own} contains NaN or infinity: fetch the model again")
    if config.tied and HEAD in weights and _are_equal(weights[HEAD], weights[EMBEDDING]):
        del weights[HEAD]
    return StoredWeights(weights)


def _of_gguf(path: Path, config: ModelConfig) -> StoredWeights:
    header = read_header(path)
    weights = find_tensors(header, expected_shapes(config))
    for name, weight in weights.items():
        if not _is_finite(weight):
            raise ModelError(f"{own_name(name)[0]} contains NaN or infinity: fetch the model again")
    return StoredWeights(weights)


def _arrays(
    tensors: Mapping[str, StoredTensor | QuantizedRows],
) -> Iterator[tuple[str, npt.NDArray[Any] | QuantizedRows]]:
    for name, tensor in tensors.items():
        if isinstance(tensor, QuantizedRows):
            yield name, tensor
        elif tensor.dtype in DTYPES:
            yield name, tensor.content.view(DTYPES[tensor.dtype]).reshape(tensor.shape)


def as_fp32(*parts: npt.NDArray[Any]) -> Fp32:
    """Join weights as fp32, which holds fp16 and bf16 exactly; weights stored as fp32 are not copied."""
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


def _check(
    stored: Mapping[str, StoredTensor | QuantizedRows], shapes: Mapping[str, tuple[int, ...]], config: ModelConfig
) -> None:
    for usual, shape in shapes.items():
        name = stored_name(config.family, usual)
        if name not in stored:
            raise ModelError(_lacking(name, stored))
        _check_tensor(name, stored[name], shape)
    layers = len(config.layers)
    further = stored_name(config.family, f"model.layers.{layers}.")
    if config.family not in PREDICTS_FURTHER and any(name.startswith(further) for name in stored):
        raise ModelError(f"the weights have more layers than config.json's {layers}: fetch the model again")


def _lacking(name: str, stored: Iterable[str]) -> str:
    """Return that a tensor is missing, or its name in a larger model or in a model saved without a head."""
    inner = "." + name.removeprefix("model.")
    if other := next((each for each in sorted(stored) if f".{each}".endswith(inner)), None):
        how = "use a checkpoint of the text model alone, as AutoModelForCausalLM of transformers saves it"
        return f"the weights have {other} in place of {name}: {how}"
    return f"the weights lack {name}, which config.json asks for: fetch the model again"


def _check_tensor(name: str, tensor: StoredTensor | QuantizedRows, shape: tuple[int, ...]) -> None:
    if isinstance(tensor, StoredTensor) and tensor.dtype not in DTYPES:
        raise ModelError(f"{name} is of {tensor.dtype}, which is quantized: use the unquantized model")
    if tensor.shape != shape:
        raise ModelError(f"{name} has shape {tensor.shape}, config.json asks for {shape}: fetch the model again")


def _are_equal(one: npt.NDArray[Any] | QuantizedRows, other: npt.NDArray[Any] | QuantizedRows) -> bool:
    """Return whether two matrices of one shape are stored alike; compared in parts, which may be large."""
    if isinstance(one, QuantizedRows) or isinstance(other, QuantizedRows) or one.dtype != other.dtype:
        return False
    parts = (slice(at, at + ROWS_AT_ONCE) for at in range(0, len(one), ROWS_AT_ONCE))
    return all(np.array_equal(one[part], other[part]) for part in parts)


def _is_finite(weight: Stored) -> bool:
    """Return whether a weight is without NaN and infinity; of 16 bits the exponent tells, quicker than numpy."""
    if isinstance(weight, QuantizedRows):
        weight = weight.largest
    elif isinstance(weight, Blocks):
        weight = weight.scales
    mask = EXPONENTS.get(weight.dtype)
    if mask is None:
        return bool(np.isfinite(weight).all())
    return not ((weight.view(np.uint16) & mask) == mask).any()
