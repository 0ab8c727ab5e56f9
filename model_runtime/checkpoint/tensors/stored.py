"""Maps the tensors of a safetensors file as they are stored."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from model_runtime.regular_files import MIB, UnfitFile

MOST_HEADER = 16 * MIB  # bytes: of 100,000 tensors it takes 12
METADATA = "__metadata__"  # in a header, with the tensors: texts by name


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
