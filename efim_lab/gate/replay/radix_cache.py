"""Counts tokens that a server with a radix cache recomputes: it reuses the longest beginning of an earlier prompt.

The rules follow SGLang's RadixAttention (arXiv 2312.07104): a tree of runs of token ids, bounded in tokens; the
leaf that was used longest ago is evicted first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from model_runtime.ids import Ids, common_prefix


@dataclass(eq=False)
class RadixNode:
    """A run of tokens that follows the tokens of `parent`; `used` is the number of the prompt that last held it."""

    ids: Ids
    parent: RadixNode | None
    used: int
    children: dict[int, RadixNode] = field(default_factory=dict[int, "RadixNode"])


class RadixCache:
    """The tokens of earlier prompts, at most `capacity` of them, or the last prompt's if it has more."""

    def __init__(self, capacity: int) -> None:
        """Start empty."""
        self.capacity, self.tokens = capacity, 0
        self._clock = 0  # prompts so far
        self._root = RadixNode(np.zeros(0, dtype=np.int32), None, 0)

    def prefill(self, ids: Ids) -> int:
        """Keep a prompt's tokens; return how many had to be computed, at least the last one for its logits."""
        self._clock += 1
        node, reused = self._longest_match(ids)
        if reused < len(ids):
            node.children[int(ids[reused])] = RadixNode(ids[reused:], node, self._clock)
            self.tokens += len(ids) - reused
        self._evict()
        return max(len(ids) - reused, 1)

    def _longest_match(self, ids: Ids) -> tuple[RadixNode, int]:
        """Return the node that ends the longest known beginning of `ids`, and that beginning's length."""
        node, reused = self._root, 0
        while reused < len(ids) and (child := node.children.get(int(ids[reused]))):
            common = common_prefix(child.ids, ids[reused:])
            node = child if common == len(child.ids) else self._split(child, common)
            node.used = self._clock
            reused += common
        return node, reused

    def _split(self, child: RadixNode, length: int) -> RadixNode:
        """Cut a run in two; return the node of its first `length` tokens."""
        assert child.parent is not None
        first = RadixNode(child.ids[:length], child.parent, child.used, {int(child.ids[length]): child})
        child.parent.children[int(child.ids[0])] = first
        child.ids, child.parent = child.ids[length:], first
        return first

    def _evict(self) -> None:
        while self.tokens > self.capacity:
            oldest = min(_leaves(self._root), key=lambda leaf: leaf.used)
            if oldest.used == self._clock or oldest.parent is None:
                return
            del oldest.parent.children[int(oldest.ids[0])]
            self.tokens -= len(oldest.ids)


def _leaves(node: RadixNode) -> Iterator[RadixNode]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if not node.children:
            yield node
        waiting += node.children.values()
