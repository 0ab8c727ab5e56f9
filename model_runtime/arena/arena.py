"""Arenas: preallocated, contiguous keys and values of one token sequence each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from model_runtime.arena.sequence import TokenSequence
from model_runtime.checkpoint.config import ModelConfig
from model_runtime.ids import Ids, common_prefix
from model_runtime.logits import Logits

FP32 = 4  # bytes

KeysValues = npt.NDArray[np.float32]  # [2, layers, kv_heads, tokens, head_dim]


class Arena(TokenSequence):
    """Keys and values of one token sequence.

    Invariant: `k[:, :, i]` and `v[:, :, i]` hold what the model computed for `ids[i]` after `ids[:i]`, for every
    i < length; what lies beyond is junk. `logits`, where `logits_at` is not -1, follow `ids[:logits_at]`. `memo` is
    whatever the engine remembers about the last answer made here; it survives truncation, and is dropped when the
    arena becomes a copy of another or serves another frame.
    """

    def __init__(self, config: ModelConfig, capacity: int) -> None:
        """Allocate [layers, kv_heads, capacity, head_dim] twice, fp32; a page takes memory once it is written."""
        super().__init__(capacity)
        shape = (config.layers, config.kv_heads, capacity, config.head_dim)
        self.k: KeysValues = np.zeros(shape, dtype=np.float32)
        self.v: KeysValues = np.zeros(shape, dtype=np.float32)
        self.logits: Logits | None = None
        self.memo: object | None = None

    def keep_logits(self, logits: Logits, at: int) -> None:
        """Keep the logits [vocab] that follow the first `at` tokens, so that the same prompt costs no pass."""
        self.logits, self.logits_at = logits, at

    def change_owner(self) -> None:
        """Begin to serve another frame: what is known of the last one's answers would hide what this one computes."""
        self.memo = None

    def copy_prefix(self, other: TokenSequence, length: int) -> None:
        """Become the first `length` tokens of `other`, with its keys and values; those that are equal stay."""
        assert isinstance(other, Arena)
        start = min(common_prefix(self.ids, other.ids[:length]), self.exact)
        self.k[:, :, start:length] = other.k[:, :, start:length]
        self.v[:, :, start:length] = other.v[:, :, start:length]
        self.memo = None
        super().copy_prefix(other, length)

    def copy_out(self, start: int, end: int) -> KeysValues:
        """Return a copy of the keys and values of the tokens from `start` to `end`."""
        assert 0 <= start <= end <= self.length
        return np.stack([each[:, :, start:end] for each in (self.k, self.v)])

    def copy_in(self, ids: Ids, computed: KeysValues, exact: bool) -> None:
        """Append tokens with a copy of keys and values that were computed after the same preceding tokens.

        `exact` is false if a store's codec has changed them.
        """
        start, end = self.length, self.length + len(ids)
        self.k[:, :, start:end], self.v[:, :, start:end] = computed
        if not exact:
            self.exact = min(self.exact, start)
        self.append(ids)


def arena_bytes(config: ModelConfig, capacity: int) -> int:
    """Return the bytes that one arena takes."""
    return 2 * FP32 * config.layers * config.kv_heads * config.head_dim * capacity
