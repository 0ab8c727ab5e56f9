"""The store of one model: tiers, the fastest first, and what moves blocks between them and the arenas."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kv_store.block import BLOCK_TOKENS, Block, Codec, Name, chain, root
from kv_store.codec import Coder, codec_at
from kv_store.memory import MemoryTier
from kv_store.tier import Tier, TierStats
from kv_store.writer import Writer

REMEMBERED_DOCUMENTS = 64  # whose blocks are pinned when the user comes back
PATIENCE, LOOK = 1.0, 0.01  # seconds that keeping waits for a disk with much to write, and between looks

KeysValues = npt.NDArray[np.float32]
Stopped = Callable[[], bool]


@dataclass(frozen=True)
class Computed:
    """Tokens whose keys and values somebody has: the names of their blocks, each block's numbers, how many are exact.

    `numbers(i)` are those of the i-th block, [2, layers, kv_heads, 16, head_dim]. `length` counts the tokens of the
    whole sequence that the blocks begin.
    """

    names: Sequence[Name]
    numbers: Callable[[int], KeysValues]
    exact_blocks: int
    length: int


class Lower(NamedTuple):
    """A tier that is slow to write, and how blocks are written there."""

    tier: Tier
    codec: Codec


class Store:
    """Keeps blocks of one model. Used on one thread, the engine's; a thread of its own writes to the lower tier.

    With a codec that loses something blocks are approximations, and so is what was computed behind them.
    """

    def __init__(
        self,
        fingerprint: bytes,
        coder: Coder,
        memory: MemoryTier,
        lower: Lower | None = None,
    ) -> None:
        """Own the tiers: `close` closes them."""
        self.writer = Writer(lower.tier) if lower else None
        self._root, self._coder = root(fingerprint), coder
        self._memory, self._lower = memory, lower
        self._tiers: list[Tier] = [memory, lower.tier] if lower else [memory]
        self._front = 0
        self._blocks_of: OrderedDict[int, Sequence[Name]] = OrderedDict()  # the document edited last at the end

    def names(self, ids: npt.NDArray[np.int32]) -> list[Name]:
        """The names of the whole blocks of a sequence."""
        return chain(self._root, ids)

    def held(self, names: Sequence[Name]) -> int:
        """How many blocks at the beginning of a chain some tier has; changes nothing."""
        found = 0
        while (more := max(tier.held(names[found:]) for tier in self._tiers)) > 0:
            found += more
        return found

    def read(self, names: Sequence[Name], first: int) -> Iterator[tuple[KeysValues, bool]]:
        """Yield keys and values of blocks from the `first` on, and whether they are exact, up to one that is missing.

        They are valid until the next ones are asked for.
        """
        at = first
        while at < len(names):
            before = at
            for tier in self._tiers:
                for block in tier.read(names[at:]):
                    if len(block.data) != self._coder.size(block.codec):
                        return
                    yield self._coder.decode(block.data, at * BLOCK_TOKENS, block.codec), not block.approximate
                    at += 1
            if at == before:
                return

    def keep(self, document: int, computed: Computed, below: bool, stopped: Stopped) -> bool:
        """Keep what a document's tokens were computed to, in lower tiers only if `below`; false if it was stopped."""
        names = computed.names
        in_memory = self._memory.held(names)
        in_lower = self._lower.tier.held(names) if self._lower and below else len(names)
        while (i := min(in_memory, in_lower)) < len(names):
            if stopped():
                return False
            numbers = computed.numbers(i)
            if i == in_memory:  # where there is no room, there is none for what comes behind
                in_memory = i + 1 if self._to_memory(document, computed, i, numbers) else len(names)
            if i == in_lower:
                in_lower = i + 1 if self._to_lower(document, computed, i, numbers, stopped) else len(names)
        return True

    def pin(self, document: int, names: Sequence[Name]) -> None:
        """Pin the blocks that a document needs, now and whenever it is the one being edited."""
        self._blocks_of[document] = names
        if document == self._front:
            self._pin(names)
        while len(self._blocks_of) > REMEMBERED_DOCUMENTS:
            self._blocks_of.popitem(last=False)

    def visit(self, document: int) -> None:
        """Mark the document as the one being edited; 0 is none. The blocks of the one before count as just used."""
        if document == self._front:
            return
        for tier in self._tiers:
            tier.touch(self._blocks_of.get(self._front, ()))
        self._front = document
        if document in self._blocks_of:
            self._blocks_of.move_to_end(document)
        self._pin(self._blocks_of.get(document, ()))

    def leave(self, document: int) -> None:
        """Mark a closed document as no longer being edited."""
        if document == self._front:
            self.visit(0)

    def forget_below(self, document: int) -> None:
        """Have what a document brought to lower tiers dropped and wiped, some time later."""
        if self.writer and self._lower:
            self.writer.run(partial(self._lower.tier.forget, document))

    def stats(self) -> list[TierStats]:
        """What the tiers hold; may be asked for on any thread."""
        return [tier.stats() for tier in self._tiers]

    def flush(self, seconds: float) -> bool:
        """Wait for what is to be written, at most so long; may be called on any thread."""
        return self.writer is None or self.writer.flush(seconds)

    def close(self, seconds: float) -> bool:
        """Write what is left, at most so long, and let go of files; false where that took too long."""
        if self.writer is not None and not self.writer.close(seconds):
            return False
        for tier in self._tiers:
            tier.close()
        return True

    def _block(self, document: int, computed: Computed, i: int, numbers: KeysValues, wanted: Codec) -> Block:
        codec = codec_at(i * BLOCK_TOKENS, computed.length, wanted)
        try:
            data = self._coder.encode(numbers, i * BLOCK_TOKENS, codec)
        except ValueError:  # the codec has no numbers for these
            codec = Codec.RAW
            data = self._coder.encode(numbers, i * BLOCK_TOKENS, codec)
        approximate = codec is not Codec.RAW or i >= computed.exact_blocks
        parent = computed.names[i - 1] if i else self._root
        return Block(computed.names[i], parent, document, codec, approximate, data)

    def _to_memory(self, document: int, computed: Computed, i: int, numbers: KeysValues) -> bool:
        self._memory.write([self._block(document, computed, i, numbers, Codec.RAW)])
        return self._memory.held(computed.names[i : i + 1]) > 0

    def _to_lower(self, document: int, computed: Computed, i: int, numbers: KeysValues, stopped: Stopped) -> bool:
        assert self._lower is not None and self.writer is not None
        if self.writer.waits(computed.names[i]):
            return True
        block, end = self._block(document, computed, i, numbers, self._lower.codec), time.monotonic() + PATIENCE
        while not self.writer.put(block):
            if stopped() or time.monotonic() > end:
                return False
            self.writer.flush(LOOK)
        return True

    def _pin(self, names: Sequence[Name]) -> None:
        for tier in self._tiers:
            tier.pin(names)
