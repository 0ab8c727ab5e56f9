"""What a cache of whole blocks reuses of people's prompts: what the size of a block costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from efim_lab.gate.team.people import PersonKey
from model_runtime.ids import Ids

SIZES = (1, 16, 32, 128)  # 16: vLLM's on GPUs; 128: its CPU build's


class BlockRow(NamedTuple):
    """Tokens computed for keys and ahead of them with blocks of a size, and shares of the keys' that were cached."""

    size: int
    computed: int
    ahead: int
    share: float
    share_after_first: float


class BlockCache:
    """Whole blocks of all prompts so far, as vLLM keeps them: each is found by its tokens and all before them.

    Nothing is evicted. The last token of a prompt is always computed, and with it its block.
    """

    def __init__(self, size: int) -> None:
        """Start empty."""
        self._size, self._blocks = size, set[int]()

    def prefill(self, ids: Ids) -> int:
        """Keep a prompt's whole blocks; return how many tokens had to be computed."""
        chain, found, going = 0, 0, True
        for start in range(0, len(ids) - self._size + 1, self._size):
            chain = hash((chain, ids[start : start + self._size].tobytes()))
            going = going and chain in self._blocks
            found += going
            self._blocks.add(chain)
        return len(ids) - min(found, (len(ids) - 1) // self._size) * self._size


def count_blocks(people: Sequence[Sequence[PersonKey]], size: int) -> BlockRow:
    """Count what people's prompts compute, each with a cache of blocks of `size` tokens for himself."""
    prompts = [0, 0]  # of first keys, and of the others
    computed = [0, 0]
    ahead = 0
    for keys in people:
        cache = BlockCache(size)
        for number, key in enumerate(keys):
            ahead += sum(map(cache.prefill, key.ahead))
            prompts[number > 0] += len(key.ids)
            computed[number > 0] += cache.prefill(key.ids)
    after_first = 1 - computed[1] / prompts[1] if prompts[1] else 0.0
    return BlockRow(size, sum(computed), ahead, 1 - sum(computed) / sum(prompts), after_first)
