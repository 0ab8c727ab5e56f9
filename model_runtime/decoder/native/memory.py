"""Memory for weights in huge pages, which spare the processor most misses of its page table."""

from __future__ import annotations

import math
import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

HUGE_PAGE = 2 << 20  # bytes, on x86-64
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
            self._region, self._used = _region(max(size, REGION)), 0
        start, self._used = self._used, -(-(self._used + size) // ALIGNMENT) * ALIGNMENT
        return self._region[start : start + size].view(dtype).reshape(shape)


def _region(size: int) -> npt.NDArray[np.uint8]:
    """Map zeros, private to this process: the system puts no shared ones into huge pages unless told to."""
    if sys.platform == "win32":
        memory = mmap.mmap(-1, size + HUGE_PAGE)
    else:
        memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system without such pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    mapped = np.frombuffer(memory, dtype=np.uint8)
    start = -mapped.ctypes.data % HUGE_PAGE  # pages that are not touched take no memory
    return mapped[start : start + size]
