"""How long it takes to read as many bytes as a model's weights have."""

from __future__ import annotations

import mmap
from time import perf_counter

import torch

from model_runtime.kv.layout import FP32

BYTES = {"fp16": 2, "int8": 1}  # a weight
SECONDS = 0.5
LEAST = 5  # times
COLUMNS = 1024


def read_ms(parameters: int) -> dict[str, float]:
    """Milliseconds to read an array of `parameters` weights by stored format, with torch's threads; the best of many.

    It is summed up, and multiplied by a vector, whichever is faster. It is read again and again, as weights are:
    parts that fit the caches come from there.
    """
    return {stored: _best(parameters * size) for stored, size in BYTES.items()}


def _best(size: int) -> float:
    array, vector = _in_large_pages(size), torch.ones(COLUMNS)
    times = list[float]()
    end = perf_counter() + SECONDS
    while len(times) < LEAST or perf_counter() < end:
        for read in (array.sum, lambda: array.T.mv(vector)):
            began = perf_counter()
            read()
            times.append((perf_counter() - began) * 1e3)
    return min(times)


def _in_large_pages(size: int) -> torch.Tensor:
    """An array [COLUMNS, n] of about `size` bytes."""
    rows = size // FP32 // COLUMNS
    memory = mmap.mmap(-1, COLUMNS * rows * FP32)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.float32).fill_(1).view(COLUMNS, rows)
