"""Lays out one expert as a run of bytes, which is read at once when a token wants it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.families.layer_spec import Experts
from model_runtime.decoder.native.packing import INPUTS, OUTPUTS, PackedMatrix, pack, round_up
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.weights.feed_forward import DenseWeights

PAGE = 4096  # bytes: records begin at a page of the file
LINE = 64  # bytes: arrays begin at a line of the cache


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
