"""Memory for weights in huge pages, which spare the processor most misses of its page table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from model_runtime.mapped_memory import map_zeros

REGION = 32 << 20  # bytes that small tensors share: alone, most of them would not fill a huge page
ALIGNMENT = 64  # bytes: a line of the cache


class WeightMemory:
    """Arrays of zeros side by side; a region of memory is released with the last of its arrays."""

    def __init__(self) -> None:
        self._region, self._used = np.empty(0, dtype=np.uint8), 0

    def zeros(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Allocate zeros."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if self._used + size > len(self._region):
            self._region, self._used = map_zeros(max(size, REGION), in_huge_pages=True), 0
        start, self._used = self._used, -(-(self._used + size) // ALIGNMENT) * ALIGNMENT
        return self._region[start : start + size].view(dtype).reshape(shape)
