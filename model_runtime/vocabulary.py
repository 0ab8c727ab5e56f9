"""Which tokens may come next when the text to come is partly known."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

import numpy as np

from model_runtime.ids import Ids


class Vocabulary:
    """Finds tokens by the bytes they spell. Pure; tokens without bytes (special ones) are never found."""

    def __init__(self, token_bytes: list[bytes]) -> None:
        """Sort the tokens by their bytes."""
        order = sorted((spelled, i) for i, spelled in enumerate(token_bytes) if spelled)
        self._spelled = [spelled for spelled, _ in order]
        self._ids = np.array([i for _, i in order], dtype=np.int32)
        self.fitting = lru_cache(256)(self._fitting)

    def _fitting(self, stub: bytes) -> Ids:
        """Tokens that begin with the stub, or that the stub begins with; stub is not empty."""
        first = bisect_left(self._spelled, stub)
        last = bisect_left(self._spelled, stub + b"\xff" * 64, lo=first)
        shorter = [i for n in range(1, len(stub)) if (i := self._id(stub[:n])) is not None]
        return np.concatenate((self._ids[first:last], np.array(shorter, dtype=np.int32)))

    def _id(self, spelled: bytes) -> int | None:
        at = bisect_left(self._spelled, spelled)
        return int(self._ids[at]) if at < len(self._spelled) and self._spelled[at] == spelled else None
