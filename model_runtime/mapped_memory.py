"""Memory that the system maps for one array: zeros that take room once they are written."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import Any, cast

import numpy as np
import numpy.typing as npt

HUGE_PAGE = 2 << 20  # bytes, on x86-64


def map_zeros(size: int, in_huge_pages: bool) -> npt.NDArray[np.uint8]:
    """Map `size` zero bytes, private to this process: the system puts no shared pages into huge ones by default.

    Huge pages spare the processor most misses of its page table, and each takes 2 MiB with the first byte that is
    written; without them the mapping asks the system for small pages, even where it would choose otherwise. The
    memory is released with the last view of the array. Raises MemoryError.
    """
    room = size + (HUGE_PAGE if in_huge_pages else 0)
    try:
        if sys.platform == "win32":
            memory = mmap.mmap(-1, room)
        else:
            memory = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"the system has no {room >> 20} MiB of memory left") from error
    advice = getattr(mmap, "MADV_HUGEPAGE" if in_huge_pages else "MADV_NOHUGEPAGE", None)
    if advice is not None:
        with suppress(OSError):  # a system without such pages
            memory.madvise(advice)
    mapped = np.frombuffer(memory, dtype=np.uint8)
    start = -mapped.ctypes.data % HUGE_PAGE if in_huge_pages else 0  # pages that are not touched take no memory
    return mapped[start : start + size]


def release_pages(mapped: npt.NDArray[Any]) -> None:
    """Take the whole mapping that an array lies in out of this process' memory, where the system can do that.

    Later reads come from its file; without a file they are zeros, or on some systems the old values.
    """
    base: Any = mapped
    while isinstance(base, np.ndarray):
        base = cast("npt.NDArray[Any]", base).base
    if isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.obj.madvise(mmap.MADV_DONTNEED)
