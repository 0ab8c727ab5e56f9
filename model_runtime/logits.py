"""Logits as whoever computed them holds them: an array, or a tensor of torch's. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Tensor(Protocol):
    """A torch tensor on any device: the members that are used where torch is not imported."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Tensor]: ...

    def __getitem__(self, at: int, /) -> Tensor: ...

    def clone(self) -> Tensor: ...

    def cpu(self) -> Tensor: ...

    def numpy(self) -> npt.NDArray[Any]: ...


Logits = npt.NDArray[np.float32] | Tensor  # of a row [vocab] or of several, wherever they were computed
