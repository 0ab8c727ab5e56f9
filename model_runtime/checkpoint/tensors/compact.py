"""Maps the tensors of a safetensors file, and reads its compact form: matrices of int8, and tables that are deflated.

Instead of a tensor NAME a file has NAME.digits and NAME.largest, see `QuantizedRows`, or, of a table of fp16,
NAME.low and NAME.high: the low bytes of its numbers, and the high ones. All but `largest` are deflated. Shapes are
those that config.json asks for.
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from model_runtime.errors import ModelError
from model_runtime.mapped_memory import map_zeros, release_pages
from model_runtime.regular_files import MIB, UnfitFile

Fp32 = npt.NDArray[np.float32]
BF16 = np.dtype([("bf16", "<u2")])  # numpy has no bf16: as a field, its bits cannot be taken for numbers
DTYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": BF16}

INT8_MAX = 127.0
SMALLEST_DIVISOR = float(np.finfo(np.float32).tiny)  # a row of zeros must be divided by something
MOST_HEADER = 16 * MIB  # bytes: of 100,000 tensors it takes 12
METADATA = "__metadata__"  # in a header, with the tensors: texts by name
KIND, VERSION = "efim-ls compact", 1
DIGITS, LARGEST, LOW, HIGH = ".digits", ".largest", ".low", ".high"
DAMAGED = "fetch the model again"


class QuantizedRows(NamedTuple):
    """A matrix as `digits` [out, in], and the `largest` magnitude [out] of each row, which 127 stands for."""

    digits: npt.NDArray[np.int8]
    largest: Fp32

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix."""
        return self.digits.shape

    def widened(self) -> Fp32:
        """Return the matrix in fp32. If fp16 holds `largest`, `quantized` makes the same digits and scales of it."""
        return self.digits * row_scales(self.largest)


def row_scales(largest: Fp32) -> Fp32:
    """Return the factors that the digits of each row are multiplied by, [out, 1]."""
    divided: Fp32 = np.maximum(largest[:, None], np.float32(SMALLEST_DIVISOR))
    return divided / np.float32(INT8_MAX)


class StoredTensor(NamedTuple):
    """A tensor's bytes, its format as safetensors names it, and its shape."""

    content: npt.NDArray[np.uint8]
    dtype: str
    shape: tuple[int, ...]


def map_tensors(path: Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Return the tensors of a file and its metadata. Raises SafetensorError, or OSError.

    safetensors checks the header: sizes fit shapes, and places fit the file. A file stays mapped as long as one of
    its tensors is.
    """
    with path.open("rb") as file:
        if int.from_bytes(file.read(8), "little") > MOST_HEADER:
            raise UnfitFile(f"its header is larger than {MOST_HEADER // MIB} MiB")
    with safe_open(path, "numpy"):
        pass
    with path.open("rb") as file:  # private pages: torch warns of tensors that it must not write
        content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), dtype=np.uint8)
    begin = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = cast("dict[str, dict[str, Any]]", json.loads(content[8:begin].tobytes()))
    metadata = header.pop(METADATA, {})
    return dict(_tensors(header, content[begin:])), metadata


def _tensors(header: dict[str, dict[str, Any]], content: npt.NDArray[np.uint8]) -> Iterator[tuple[str, StoredTensor]]:
    for name, tensor in header.items():
        start, end = tensor["data_offsets"]
        yield name, StoredTensor(content[start:end], tensor["dtype"], tuple(tensor["shape"]))


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
