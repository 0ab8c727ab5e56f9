"""Reads the compact form of a checkpoint: matrices of int8, and tables whose bytes are deflated.

Instead of a tensor NAME a file has NAME.digits and NAME.largest, see `QuantizedRows`, or, of a table of fp16,
NAME.low and NAME.high: the low bytes of its numbers, and the high ones. All but `largest` are deflated. Shapes are
those that config.json asks for.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.tensors.quantized_rows import QuantizedRows
from model_runtime.checkpoint.tensors.stored import StoredTensor
from model_runtime.errors import ModelError
from model_runtime.mapped_memory import map_zeros, release_pages

KIND, VERSION = "efim-ls compact", 1
DIGITS, LARGEST, LOW, HIGH = ".digits", ".largest", ".low", ".high"
DAMAGED = "fetch the model again"


def check_version(metadata: Mapping[str, str]) -> None:
    """Raise ModelError for a compact form of another version."""
    kind, _, version = metadata.get("format", "").rpartition(" ")
    if kind == KIND and version != str(VERSION):
        raise ModelError(f"the weights have version {version} of the compact form: install a newer efim-ls")


def expanded(
    stored: Mapping[str, StoredTensor], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, StoredTensor | QuantizedRows]:
    """Return all tensors; those that a compact file has in parts are put together, by the names and shapes given.

    Each takes the memory of its shape, no more. Raises ModelError for parts that are missing or damaged.
    """
    found = dict[str, StoredTensor | QuantizedRows](stored)
    for name, shape in shapes.items():
        if name + DIGITS in stored:
            found[name] = _matrix(stored, name, shape)
            parts = DIGITS, LARGEST
        elif name + LOW in stored:
            found[name] = _table(stored, name, shape)
            parts = LOW, HIGH
        else:
            continue
        for part in parts:
            del found[name + part]
    return found


def _matrix(stored: Mapping[str, StoredTensor], name: str, shape: tuple[int, ...]) -> QuantizedRows:
    largest = _part(stored, name + LARGEST, "F16").content.view("<f2")
    if len(shape) != 2 or len(largest) != shape[0]:
        raise ModelError(f"{name} has {len(largest)} rows, config.json asks for {shape}: {DAMAGED}")
    digits = map_zeros(shape[0] * shape[1], in_huge_pages=False).view(np.int8).reshape(shape)
    _inflate(stored, name + DIGITS, digits)
    return QuantizedRows(digits, largest.astype(np.float32))


def _table(stored: Mapping[str, StoredTensor], name: str, shape: tuple[int, ...]) -> StoredTensor:
    whole = np.empty((*shape, 2), np.uint8)
    for at, part in enumerate((LOW, HIGH)):
        _inflate(stored, name + part, whole[..., at])
    return StoredTensor(whole.reshape(-1), "F16", shape)


def _inflate(stored: Mapping[str, StoredTensor], name: str, into: npt.NDArray[np.int8 | np.uint8]) -> None:
    """Inflate a part, which must have as many bytes, and release its pages."""
    content, inflate = _part(stored, name, "U8").content, zlib.decompressobj()
    try:
        found = inflate.decompress(content.data, into.size + 1)
    except zlib.error as error:
        raise ModelError(f"{name} cannot be inflated ({error}): {DAMAGED}") from None
    if len(found) != into.size or not inflate.eof or inflate.unused_data:
        raise ModelError(f"{name} does not inflate to the {into.size} bytes that config.json asks for: {DAMAGED}")
    into[...] = np.frombuffer(found, into.dtype).reshape(into.shape)
    release_pages(content)


def _part(stored: Mapping[str, StoredTensor], name: str, dtype: str) -> StoredTensor:
    if name not in stored or stored[name].dtype != dtype or len(stored[name].shape) != 1:
        raise ModelError(f"the weights lack {name}, a list of {dtype}: {DAMAGED}")
    return stored[name]
