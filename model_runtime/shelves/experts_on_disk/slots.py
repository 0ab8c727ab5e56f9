"""Memory for some of a model's experts, and the threads that read others into it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from model_runtime.mapped_memory import map_zeros
from model_runtime.shelves.experts_on_disk.file import ExpertFile

READERS = 4  # reads under way: a disk is fastest with a few


class ExpertSlots:
    """Slots of one record each; whoever has one says which expert is read into it."""

    def __init__(self, file: ExpertFile, count: int) -> None:
        """Map memory, which takes room once experts are read. Raises MemoryError."""
        self._file = file
        memory = map_zeros(count * file.record_bytes, in_huge_pages=True)
        self._records: list[npt.NDArray[np.uint8]] = list(memory.reshape(count, -1))
        self._threads = ThreadPoolExecutor(READERS, "experts")

    def record(self, slot: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of a slot."""
        return self._records[slot]

    def read(self, slot: int, layer: int, expert: int) -> Future[None]:
        """Read an expert into a slot on another thread; the future may raise OSError."""
        return self._threads.submit(self._file.read, layer, expert, self._records[slot])
