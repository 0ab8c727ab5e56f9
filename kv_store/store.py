"""The store of one model: its tiers, fastest first, and what moves blocks between them and the arenas."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kv_store.block import BLOCK_TOKENS, Block, Codec, Name, branch, chain, root
from kv_store.codec import Coder, codec_at
from kv_store.memory import MemoryTier
from kv_store.tier import Tier, TierStats
from kv_store.writer import Writer

REMEMBERED_DOCUMENTS = 64  # whose blocks are pinned when the user comes back to them
DISK_PATIENCE = 1.0  # seconds that saving waits for a disk that is behind
ALONE, NO_TOKEN = b"alone", -1  # name what an excerpt's chain begins with, and what its last block lacks
POLL_INTERVAL = 0.01  # seconds between looks at `cancel` meanwhile

KeysValues = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ComputedBlocks:
    """Blocks whose keys and values an arena holds: their names, their numbers, and how many of them are exact.

    `numbers(i)` returns those of block i, [2, layers, kv_heads, 16, head_dim]. `length` is the number of tokens of
    the whole sequence that the blocks begin, whose first token has the position `begin`.
    """

    names: Sequence[Name]
    numbers: Callable[[int], KeysValues]
    exact_blocks: int
    length: int
    begin: int = 0


class LowerTier(NamedTuple):
    """A tier that is slow to write, and the codec of its blocks."""

    tier: Tier
    codec: Codec


class Store:
    """The blocks of one model. Used on one thread, the engine's; a thread of its own writes to the lower tier.

    With a lossy codec blocks are approximations, and so is everything computed from them.
    """

    def __init__(self, fingerprint: bytes, coder: Coder, memory: MemoryTier, lower: LowerTier | None = None) -> None:
        """Own the tiers, which `close` closes."""
        self.writer = Writer(lower.tier) if lower else None
        self._root, self._coder = root(fingerprint), coder
        self._memory, self._lower = memory, lower
        self._tiers: list[Tier] = [memory, lower.tier] if lower else [memory]
        self._front = 0
        self._blocks_of: OrderedDict[int, Sequence[Name]] = OrderedDict()  # by document, the last visited at the end

    def names(self, ids: npt.NDArray[np.int32], seen: bytes = b"", unaffected: int = 0) -> list[Name]:
        """Return the names of the whole blocks of a sequence.

        All but its first `unaffected` tokens were computed from something else as well, `seen`, which names their
        blocks.
        """
        if not seen:
            return chain(self._root, ids)
        whole = unaffected // BLOCK_TOKENS * BLOCK_TOKENS
        names = chain(self._root, ids[:whole])
        return names + chain(branch(names[-1] if names else self._root, seen), ids[whole:])

    def names_alone(self, ids: npt.NDArray[np.int32]) -> list[Name]:
        """Return the names of the blocks of an excerpt that was computed alone; the last one need not be full."""
        padded = np.full(-(-len(ids) // BLOCK_TOKENS) * BLOCK_TOKENS, NO_TOKEN, dtype=np.int32)
        padded[: len(ids)] = ids
        return chain(branch(self._root, ALONE), padded)

    def lookup(self, names: Sequence[Name]) -> int:
        """Count the blocks at the beginning of a chain that are in some tier; changes nothing."""
        found = 0
        while (more := max(tier.lookup(names[found:]) for tier in self._tiers)) > 0:
            found += more
        return found

    def read(self, names: Sequence[Name], first: int, begin: int = 0) -> Iterator[tuple[KeysValues, bool]]:
        """Yield the keys and values of blocks from `first` up to one that is missing, and whether they are exact.

        `begin` is the position of the chain's first token. They are valid until the next ones are requested.
        """
        at = first
        while at < len(names):
            before = at
            for tier in self._tiers:
                for block in tier.read(names[at:]):
                    if len(block.data) != self._coder.size(block.codec):
                        return
                    yield (
                        self._coder.decode(block.data, begin + at * BLOCK_TOKENS, block.codec),
                        not block.approximate,
                    )
                    at += 1
            if at == before:
                return

    def save(self, document: int, computed: ComputedBlocks, to_lower: bool, cancel: Callable[[], bool]) -> bool:
        """Save a document's blocks in memory and, if `to_lower`, in the lower tier; returns false if stopped."""
        names = computed.names
        in_memory = self._memory.lookup(names)
        in_lower = self._lower.tier.lookup(names) if self._lower and to_lower else len(names)
        while (i := min(in_memory, in_lower)) < len(names):
            if cancel():
                return False
            numbers = computed.numbers(i)
            if i == in_memory:  # without room for this block there is none for its descendants
                in_memory = i + 1 if self._save_in_memory(document, computed, i, numbers) else len(names)
            if i == in_lower:
                saved = self._save_in_lower(document, computed, i, numbers, cancel)
                in_lower = i + 1 if saved else len(names)
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

    def remove_from_lower(self, document: int) -> None:
        """Remove and wipe a document's blocks in the lower tier, on the writer's thread."""
        if self.writer and self._lower:
            self.writer.submit(partial(self._lower.tier.remove_document, document))

    def stats(self) -> list[TierStats]:
        """Return what each tier holds; safe on any thread."""
        return [tier.stats() for tier in self._tiers]

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all is written; return whether it is. Safe on any thread."""
        return self.writer is None or self.writer.flush(seconds)

    def close(self, seconds: float) -> bool:
        """Write what is queued and close the tiers; returns false, with them open, if that takes over `seconds`."""
        if self.writer is not None and not self.writer.close(seconds):
            return False
        for tier in self._tiers:
            tier.close()
        return True

    def _block(self, document: int, computed: ComputedBlocks, i: int, numbers: KeysValues, wanted: Codec) -> Block:
        codec = codec_at(i * BLOCK_TOKENS, computed.length, wanted)
        codec = self._coder.exact if codec is Codec.RAW else codec
        try:
            data = self._coder.encode(numbers, computed.begin + i * BLOCK_TOKENS, codec)
        except ValueError:  # the codec cannot represent these
            codec = Codec.RAW
            data = self._coder.encode(numbers, computed.begin + i * BLOCK_TOKENS, codec)
        approximate = not codec.exact or i >= computed.exact_blocks
        parent = computed.names[i - 1] if i else self._root
        return Block(computed.names[i], parent, document, codec, approximate, data)

    def _save_in_memory(self, document: int, computed: ComputedBlocks, i: int, numbers: KeysValues) -> bool:
        self._memory.save([self._block(document, computed, i, numbers, Codec.RAW)])
        return self._memory.lookup(computed.names[i : i + 1]) > 0

    def _save_in_lower(
        self, document: int, computed: ComputedBlocks, i: int, numbers: KeysValues, cancel: Callable[[], bool]
    ) -> bool:
        assert self._lower is not None and self.writer is not None
        if self.writer.is_pending(computed.names[i]):
            return True
        block, end = self._block(document, computed, i, numbers, self._lower.codec), time.monotonic() + DISK_PATIENCE
        while not self.writer.save(block):
            if cancel() or time.monotonic() > end:
                return False
            self.writer.flush(POLL_INTERVAL)
        return True

    def _pin(self, names: Sequence[Name]) -> None:
        for tier in self._tiers:
            tier.pin(names)
