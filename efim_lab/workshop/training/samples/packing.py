"""Packs samples into rows of equal length and fills the gaps with plain text."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from efim_lab.workshop.training.samples.sample_maker import TrainingSample

PADDING = -1  # no token of any model
_OPEN_ROWS = 8


class Packer:
    """Puts each sample whole into the fullest open row with room for it; plain text fills up closing rows."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._open: list[list[int]] = []
        self._plain: list[int] = []
        self._closed: list[list[int]] = []

    def add(self, sample: TrainingSample) -> None:
        """Add a sample of at most a row's length, or of any length if it is plain."""
        if sample.plain:
            self._plain += sample.ids
            while len(self._plain) >= 2 * self._length:
                self._close([])
            return
        fitting = [row for row in self._open if len(row) + len(sample.ids) <= self._length]
        if fitting:
            max(fitting, key=len).extend(sample.ids)
            return
        self._open.append(sample.ids.copy())
        if len(self._open) > _OPEN_ROWS:
            fullest = max(range(len(self._open)), key=lambda i: len(self._open[i]))
            self._close(self._open.pop(fullest))

    def rows(self) -> NDArray[np.int32]:
        """Close all open rows and return every row [rows, length]."""
        while self._open:
            self._close(self._open.pop())
        return np.array(self._closed, dtype=np.int32).reshape(-1, self._length)

    def _close(self, row: list[int]) -> None:
        room = self._length - len(row)
        row += self._plain[:room]
        del self._plain[:room]
        self._closed.append(row + [PADDING] * (self._length - len(row)))


def pack(samples: Iterable[TrainingSample], length: int) -> NDArray[np.int32]:
    """Pack samples into rows [rows, length]."""
    packer = Packer(length)
    for sample in samples:
        packer.add(sample)
    return packer.rows()
