"""Finds the tokens that may come next when the coming text is partly known."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache

import numpy as np

from model_runtime.ids import Ids


class Vocabulary:
    """An index of tokens by the bytes they spell. Pure; tokens without bytes (special ones) are never found."""

    def __init__(self, token_bytes: list[bytes]) -> None:
        """Sort the tokens by their bytes."""
        order = sorted((spelled, i) for i, spelled in enumerate(token_bytes) if spelled)
        self._spelled = [spelled for spelled, _ in order]
        self._ids = np.array([i for _, i in order], dtype=np.int32)
        self.longest = max(map(len, self._spelled), default=0)
        self.fitting = lru_cache(256)(self._fitting)

    def extends(self, text: bytes) -> bool:
        """Return whether some token spells a text and more."""
        at = bisect_right(self._spelled, text)
        return at < len(self._spelled) and self._spelled[at].startswith(text)

    def _fitting(self, stub: bytes) -> Ids:
        """Return the tokens that begin with the stub or with which the stub begins; stub is not empty."""
        first = bisect_left(self._spelled, stub)
        last = bisect_left(self._spelled, stub + b"\xff" * self.longest, lo=first)
        return np.concatenate([self._ids[first:last], *(self._spelling(stub[:n]) for n in range(1, len(stub)))])

    def _spelling(self, text: bytes) -> Ids:
        """Return the tokens that spell exactly this: a byte of SentencePiece and its character are two tokens."""
        return self._ids[bisect_left(self._spelled, text) : bisect_right(self._spelled, text)]
