"""The store of one model: its levels, fastest first, and what moves blocks between them and the arenas."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from kv_store.block import BLOCK_TOKENS, Block, BlockCodec, Name, branch, chain, root
from kv_store.tier import Level, Origin, Tier, TierStats
from kv_store.writer import Writer

REMEMBERED_DOCUMENTS = 64  # whose blocks are pinned when the user comes back to them
LONGEST_WAIT = 1.0  # seconds that a read waits in all where nobody knows what computing would take
WRITE_PATIENCE = 1.0  # seconds that saving waits for a tier whose writer is behind
ALONE, NO_TOKEN = b"alone", -1  # name what an excerpt's chain begins with, and what its last block lacks
POLL_INTERVAL = 0.01  # seconds between looks at `cancel` while saving
READ_INTERVAL = 0.001  # the same while reading, and between looks at a tier that does not know yet


@dataclass(frozen=True)
class ComputedBlocks:
    """Blocks whose rows an arena holds: their names, their rows, and how many of them are exact.

    `rows(i)` returns the rows of block i, for the codec. `length` is the number of tokens of the whole sequence that
    the blocks begin, whose first token has the position `begin`.
    """

    names: Sequence[Name]
    rows: Callable[[int], Any]
    exact_blocks: int
    length: int
    begin: int = 0


class Store:
    """The blocks of one model. Used on one thread, the engine's; levels that are behind have a writer each.

    With a lossy form blocks are approximations, and so is everything computed from them.
    """

    def __init__(self, fingerprint: bytes, codec: BlockCodec, levels: Sequence[Level]) -> None:
        """Own the levels' tiers, fastest first, which `close` closes."""
        self._root, self._codec, self._levels = root(fingerprint), codec, levels
        self._writers = {number: Writer(level.tier) for number, level in enumerate(levels) if level.behind}
        self._withdrawn: dict[tuple[int, int], Event] = {}  # set once that level has nothing of that document
        self._front = 0
        self._blocks_of: OrderedDict[int, Sequence[Name]] = OrderedDict()  # by document, the last visited at the end

    def names(self, ids: npt.NDArray[np.int32], seen: bytes = b"", unaffected: int = 0) -> list[Name]:
        """Return the names of the whole blocks of a sequence.

        Tokens after the first `unaffected` also depend on `seen`, and so do the names of their blocks.
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
        """Count the blocks at the beginning of a chain that some level is known to have; changes nothing."""
        found = 0
        while (more := max((level.tier.lookup(names[found:]) or 0 for level in self._levels), default=0)) > 0:
            found += more
        return found

    def read(
        self,
        names: Sequence[Name],
        first: int,
        cancel: Callable[[], bool],
        begin: int = 0,
        worth: float | None = None,
    ) -> Iterator[tuple[Any, bool]]:
        """Yield the rows of blocks from `first` up to a missing block, and whether they are exact.

        `begin` is the position of the chain's first token. They are valid until the next ones are requested. It waits
        for levels that are still looking up their blocks, until `cancel()`. `worth` is how many seconds it would take
        to compute a block, if that is known: waiting takes no longer, and a level that is slower is not asked.
        """
        at, last, computing = first, time.monotonic(), None if worth is None else worth * (len(names) - first)
        levels = [
            level for level in self._levels if computing is None or level.reading(len(names) - first) <= computing
        ]
        end = last + (LONGEST_WAIT if computing is None else computing)
        while at < len(names):
            before = at
            for level in levels:
                for block in level.tier.read(names[at:]):
                    if len(block.data) != self._codec.size(block.form):
                        return
                    rows = self._codec.decode(block.data, begin + at * BLOCK_TOKENS, block.form)
                    yield rows, not block.approximate
                    at += 1
            if at > before:
                last = time.monotonic()
            elif not _wait_for_answers(levels, names[at:], cancel, last, end):
                return

    def save(self, origin: Origin, computed: ComputedBlocks, cancel: Callable[[], bool]) -> bool:
        """Save blocks in each level that admits them and lacks them; returns false if stopped."""
        names, admitting = computed.names, [n for n, level in enumerate(self._levels) if level.admits(origin)]
        for number in admitting:
            self._withdrawn.pop((number, origin.document), None)
        have = {number: self._levels[number].tier.lookup(names) or 0 for number in admitting}
        while (i := min(have.values(), default=len(names))) < len(names):
            if cancel():
                return False
            rows, blocks = computed.rows(i), dict[int, Block]()  # by the form of a level
            for number in [number for number, count in have.items() if count == i]:
                form, saved = self._levels[number].form, self._is_queued(number, names[i])
                if not saved:
                    if form not in blocks:
                        blocks[form] = self._block(origin.document, computed, i, rows, form)
                    saved = self._save(number, blocks[form], cancel)
                have[number] = i + 1 if saved else len(names)  # without room there is none for its descendants
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
        for level in self._levels:
            level.tier.touch(self._blocks_of.get(self._front, ()))
        self._front = document
        if document in self._blocks_of:
            self._blocks_of.move_to_end(document)
        self._pin(self._blocks_of.get(document, ()))

    def leave(self, document: int) -> None:
        """Mark a closed document as no longer being edited."""
        if document == self._front:
            self.visit(0)

    def withdraw(self, origin: Origin) -> None:
        """Remove and wipe a document's blocks in each level that no longer admits them.

        A level that had all of them removed is left alone until it gets some again.
        """
        for number, level in enumerate(self._levels):
            before = self._withdrawn.get((number, origin.document))
            if not level.admits(origin) and not (before and before.is_set()):
                removed = self._withdrawn[number, origin.document] = Event()
                self.submit(number, partial(_remove, level.tier, origin.document, removed))

    def retire(self, names: Sequence[Name]) -> None:
        """Let blocks go before others in levels that several people use: a commit has replaced their text."""
        for number, level in enumerate(self._levels):
            self.submit(number, partial(level.tier.retire, names))

    def submit(self, number: int, job: Callable[[], None]) -> None:
        """Call a function where a level is written: on its writer's thread, after the queue, or here."""
        if writer := self._writers.get(number):
            writer.submit(job)
        else:
            job()

    def share_memory(self, parts: int) -> None:
        """Use one of `parts` equal parts of the memory that the levels were given."""
        for level in self._levels:
            level.tier.share_memory(parts)

    def stats(self) -> list[TierStats]:
        """Return what each level holds; safe on any thread."""
        return [level.tier.stats() for level in self._levels]

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all is written; return whether it is. Safe on any thread."""
        end = time.monotonic() + seconds
        return all([writer.flush(max(0.0, end - time.monotonic())) for writer in self._writers.values()])

    def discard(self) -> None:
        """Drop what waits to be written."""
        for writer in self._writers.values():
            writer.discard()

    def close(self, seconds: float) -> bool:
        """Write the queue and close the tiers; returns false, with them open, if that takes over `seconds`."""
        end = time.monotonic() + seconds
        if not all([writer.close(max(0.0, end - time.monotonic())) for writer in self._writers.values()]):
            return False
        for level in self._levels:
            level.tier.close()
        return True

    def _block(self, document: int, computed: ComputedBlocks, i: int, rows: Any, wanted: int) -> Block:
        first, codec = i * BLOCK_TOKENS, self._codec
        form, fitting = codec.forms_at(rows, first, computed.length, wanted)
        try:
            data = codec.encode(rows, computed.begin + first, form)
        except ValueError:  # this form cannot represent these rows
            form, data = fitting, codec.encode(rows, computed.begin + first, fitting)
        approximate = not codec.is_exact(form) or i >= computed.exact_blocks
        parent = computed.names[i - 1] if i else self._root
        return Block(computed.names[i], parent, document, form, approximate, data)

    def _is_queued(self, number: int, name: Name) -> bool:
        return number in self._writers and self._writers[number].is_pending(name)

    def _save(self, number: int, block: Block, cancel: Callable[[], bool]) -> bool:
        """Save a block in a level, or queue it; return false if there is no room."""
        if (writer := self._writers.get(number)) is None:
            tier = self._levels[number].tier
            tier.save([block])
            return tier.lookup([block.name]) != 0
        end = time.monotonic() + WRITE_PATIENCE
        while not writer.save(block):
            if cancel() or time.monotonic() > end:
                return False
            writer.flush(POLL_INTERVAL)
        return True

    def _pin(self, names: Sequence[Name]) -> None:
        for level in self._levels:
            level.tier.pin(names)


def _remove(tier: Tier, document: int, removed: Event) -> None:
    if tier.remove_document(document):
        removed.set()


def _wait_for_answers(
    levels: Sequence[Level], names: Sequence[Name], cancel: Callable[[], bool], last: float, end: float
) -> bool:
    """Wait for levels that are still looking up a chain, each as long as it may take, and until `end`.

    `last` is when the last block came. Return whether there was one: then it is worth reading again.
    """
    waited = False

    def may_come(level: Level) -> bool:
        return time.monotonic() < min(last + level.patience, end) and level.tier.lookup(names) is None

    while any(map(may_come, levels)) and not cancel():
        time.sleep(READ_INTERVAL)
        waited = True
    return waited
