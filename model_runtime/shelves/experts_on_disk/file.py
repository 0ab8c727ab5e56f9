"""A file of a model's experts, each a run of bytes as the compiled part reads it, made once from a checkpoint."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.families.layer_spec import Experts
from model_runtime.decoder.native.packing import INPUTS, OUTPUTS, PackedMatrix, pack, round_up
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.weights.feed_forward import DenseWeights
from model_runtime.errors import ModelError

PAGE = 4096  # bytes: records begin at a page of the file
LINE = 64  # bytes: arrays begin at a line of the cache
GB = 10**9
LENGTH = 8  # bytes in front of a safetensors header, which say how long it is

Shape = tuple[int, int, int]  # layers, experts of each, bytes of a record
Records = Callable[[int], Iterable[npt.NDArray[np.uint8]]]  # of the experts of a layer; one array may serve for all


class _Field(NamedTuple):
    """An array of a record."""

    start: int
    shape: tuple[int, ...]
    dtype: type[np.generic]

    def of(self, record: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Return the array as a view of a record's bytes."""
        size = prod(self.shape) * np.dtype(self.dtype).itemsize
        return record[self.start : self.start + size].view(self.dtype).reshape(self.shape)


class ExpertRecord:
    """The arrays of an expert, one after the other: first its front matrix's, then its last matrix's."""

    def __init__(self, hidden: int, experts: Experts, form: Format) -> None:
        """Lay out the experts of a layer with these numbers of inputs and outputs."""
        up = round_up(2 * experts.intermediate, OUTPUTS), round_up(hidden, INPUTS)
        down = round_up(hidden, OUTPUTS), round_up(experts.intermediate, INPUTS)
        self._form: Format = form
        self._fields: list[list[_Field | None]] = []
        self.bytes = 0
        for shape in (up, down):
            outputs = shape[:1]
            self._fields.append(
                [
                    self._field(shape, np.int8 if form == "int8" else np.float16),
                    self._field(outputs, np.float32) if form == "int8" else None,
                    self._field(outputs, np.int32) if form == "int8" else None,
                    self._field(outputs, np.float32) if experts.biased else None,
                ]
            )
        self.bytes = round_up(self.bytes, PAGE)

    def _field(self, shape: tuple[int, ...], dtype: type[np.generic]) -> _Field:
        field = _Field(self.bytes, shape, dtype)
        self.bytes = round_up(self.bytes + prod(shape) * np.dtype(dtype).itemsize, LINE)
        return field

    def write(self, expert: DenseWeights, record: npt.NDArray[np.uint8]) -> None:
        """Pack an expert's weights into a record of zeros."""
        for product, fields in zip(expert, self._fields, strict=True):
            for array, field in zip(pack(product, self._form, np.zeros), fields, strict=True):
                if field is not None:
                    field.of(record)[...] = array

    def matrices(self, record: npt.NDArray[np.uint8]) -> Iterator[PackedMatrix]:
        """Yield both matrices of an expert, as views of its record."""
        for fields in self._fields:
            weights, *others = (None if field is None else field.of(record) for field in fields)
            assert weights is not None
            yield PackedMatrix(weights, *others)


class ExpertFile:
    """An open safetensors file with one tensor of bytes for each layer, [experts, bytes of a record].

    Read from any thread; the file stays open as long as this lives.
    """

    def __init__(self, path: Path, start: int, shape: Shape) -> None:
        """Open a file whose first record is at `start`. Raises OSError."""
        self._file, self._start = path.open("rb", buffering=0), start
        _, self._count, self.record_bytes = shape

    def read(self, layer: int, expert: int, into: npt.NDArray[np.uint8]) -> None:
        """Read an expert's record. Raises OSError."""
        at, done = self._start + (layer * self._count + expert) * self.record_bytes, 0
        left = memoryview(into.data)
        while done < self.record_bytes:
            size = os.preadv(self._file.fileno(), [left[done:]], at + done)
            if not size:
                raise OSError(f"{self._file.name} has become shorter")
            done += size


def open_experts(path: Path, key: str, shape: Shape, records: Records) -> ExpertFile:
    """Open the file of a model's experts, made anew if it is not there or is another's; ModelError says why not.

    `key` stands for the weights, their format and how they are laid out.
    """
    header = _header(key, shape)
    size = len(header) + prod(shape)
    try:
        if not _is_there(path, header, size):
            _make(path, header, size, (records(layer) for layer in range(shape[0])))
        return ExpertFile(path, len(header), shape)
    except OSError as error:
        cause = f"the model's experts, {size / GB:.1f} GB, cannot be laid out in {path.parent} ({error})"
        raise ModelError(f"{cause}: make room there, or set cache_folder") from error


def _header(key: str, shape: Shape) -> bytes:
    """Return a safetensors header that ends at a page."""
    layers, count, record_bytes = shape
    of_layer = count * record_bytes
    tensors: dict[str, object] = {
        f"layers.{i}.experts": {
            "dtype": "U8",
            "shape": [count, record_bytes],
            "data_offsets": [i * of_layer, (i + 1) * of_layer],
        }
        for i in range(layers)
    }
    text = json.dumps({"__metadata__": {"key": key}} | tensors).encode()
    text += b" " * (-(LENGTH + len(text)) % PAGE)
    return len(text).to_bytes(LENGTH, "little") + text


def _is_there(path: Path, header: bytes, size: int) -> bool:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        return file.read(len(header)) == header and os.fstat(file.fileno()).st_size == size
    return False


def _make(path: Path, header: bytes, size: int, layers: Iterable[Iterable[npt.NDArray[np.uint8]]]) -> None:
    """Write the file under another name and then give it its own, so that it is never there in part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(path.parent).free) < size:
        raise OSError(f"only {free / GB:.1f} GB are free")
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(header)
            for records in layers:
                for record in records:
                    file.write(record.data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
