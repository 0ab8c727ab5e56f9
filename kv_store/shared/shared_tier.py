"""The shared tier: a team's blocks on a shelf, which is read on a thread of the tier's own."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from threading import Condition, Thread
from typing import TypeVar

from kv_store.block import Block, Name
from kv_store.shared.shelf import Shelf, ShelfError, ShelfFull
from kv_store.shared.wire import Sealer
from kv_store.tier import TierStats
from kv_store.warn_once import WarnOnce

PRESENT_FOR, ABSENT_FOR = 600.0, 5.0  # seconds for which an answer is remembered
MOST_REMEMBERED = 1 << 16  # names
FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds after a failure, and after many in a row
ARRIVED_BYTES = 1 << 26  # of blocks that have come and are kept
FIRST_BATCH, LARGEST_BATCH = 2, 32  # blocks that are asked for together: few at first, so that some come soon
BATCH_BYTES = 1 << 23  # that are asked for or written together
BATCH_SECONDS = 0.05  # that a batch of reads should take, so that a reader sees progress
MOST_LOOKS = 32  # chains that wait to be looked for; of more the latest
MOST_BROUGHT = 1 << 16  # names of blocks that documents have brought
CLOSE_SECONDS = 1.0  # that closing waits for running requests
PACE_HOLDS = 60.0  # seconds after which a slow link is tried again
DAMAGED = (
    "the shared cache holds values that are damaged or not signed with the team's key, which count as missing; find "
    "out who else writes to that server"
)

Clock = Callable[[], float]
T = TypeVar("T")

logger = logging.getLogger(__name__)


class Rest:
    """A time without requests after a failure, twice as long after each further one. Safe on any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._pause, self._ends = clock, 0.0, 0.0

    @property
    def is_over(self) -> bool:
        """Whether the server may be asked."""
        return self._clock() >= self._ends

    def begin(self) -> None:
        """Rest after a failure; failures of concurrent requests count once."""
        if self.is_over:
            self._pause = min(max(FIRST_REST, 2 * self._pause), LONGEST_REST)
            self._ends = self._clock() + self._pause

    def end(self) -> None:
        """Forget failures after a success."""
        self._pause = self._ends = 0.0


class Presence:
    """Which blocks a server is known to have or to lack, as long as that is likely to be true."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._known = clock, OrderedDict[Name, tuple[bool, float, int]]()
        self.notes = 0  # that were made

    def note(self, names: Iterable[Name], is_there: bool, asked: int | None = None) -> None:
        """Remember that blocks are there, or are not.

        `asked` is the value of `notes` when an answer was asked for: blocks that were noted since stay as they are.
        """
        until = self._clock() + (PRESENT_FOR if is_there else ABSENT_FOR)
        self.notes += 1
        for name in names:
            if asked is not None and name in self._known and self._known[name][2] > asked:
                continue
            self._known[name] = is_there, until, self.notes
            self._known.move_to_end(name)
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)

    def of(self, name: Name) -> bool | None:
        """Return whether a block is there, None if that is not known."""
        is_there, until, _ = self._known.get(name, (None, 0.0, 0))
        return is_there if self._clock() < until else None

    def count(self, names: Sequence[Name]) -> int:
        """Count the blocks at the beginning of a chain that are known to be there."""
        return sum(1 for _ in takewhile(self.of, names))


class Arrivals:
    """Blocks that have come from a server, as many as fit; the least recently used go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes, self._blocks = most_bytes, 0, OrderedDict[Name, Block]()

    def add(self, block: Block) -> None:
        """Keep a block, if need be in place of others."""
        self.remove(block.name)
        self._blocks[block.name] = block
        self._bytes += len(block.data)
        while self._bytes > self._most:
            self.remove(next(iter(self._blocks)))

    def get(self, name: Name) -> Block | None:
        """Return a block, which counts as used, None if it is not here."""
        if name in self._blocks:
            self._blocks.move_to_end(name)
        return self._blocks.get(name)

    def remove(self, name: Name) -> None:
        """Drop a block if it is here."""
        if block := self._blocks.pop(name, None):
            self._bytes -= len(block.data)

    def count(self, names: Sequence[Name]) -> int:
        """Count the blocks at the beginning of a chain that are here."""
        return sum(1 for _ in takewhile(self._blocks.__contains__, names))


class SharedTier:
    """Blocks on a shelf. Nobody waits for it but the tier's own thread and the writer's.

    To look up asks which blocks are there; to read fetches them, and yields those that have arrived. While the shelf
    rests after a failure, nothing new is there, and nothing is saved.
    """

    def __init__(self, shelf: Shelf, sealer: Sealer, warnings: WarnOnce, clock: Clock = time.monotonic) -> None:
        """Own the shelf, which `close` closes."""
        self._shelf, self._sealer, self._warnings, self._clock = shelf, sealer, warnings, clock
        self._changed = Condition()  # guards what follows
        self._rest, self._room = Rest(clock), Rest(clock)  # after a failure; of writing, after there was no room
        self._arrived, self._known = Arrivals(ARRIVED_BYTES), Presence(clock)
        self._looks = OrderedDict[Name, Sequence[Name]]()  # chains to look for, by their first block
        self._wanted: Sequence[Name] = ()  # the chain to fetch next
        self._coming = set[Name]()  # wanted blocks, and blocks being fetched
        self._brought = OrderedDict[int, dict[Name, None]]()  # by document
        self._pace, self._measured = (0.0, 0.0), 0.0  # seconds an answer and a block took last, and when that was
        self._read = self._written = self._damaged = 0
        self._is_closed = False
        self._thread = Thread(target=self._work, name="store-reader", daemon=True)
        self._thread.start()

    def lookup(self, names: Sequence[Name]) -> int | None:
        """Count the blocks at the beginning of a chain that are known to be there; None while that is found out."""
        with self._changed:
            if not names or not self._rest.is_over:
                return self._arrived.count(names)
            if names[0] in self._coming:
                return None
            count = self._known.count(names)
            if count < len(names) and self._known.of(names[count]) is None:
                self._look(names[count:])
                return count or None
            return count

    def read(self, names: Sequence[Name]) -> Iterator[Block]:
        """Yield the blocks of a chain that have arrived, and have those behind them fetched."""
        for at, name in enumerate(names):
            with self._changed:
                if (block := self._arrived.get(name)) is None:
                    self._fetch_unless_missing(names[at:])
                    return
                self._read += 1
            yield block

    def save(self, blocks: Iterable[Block]) -> None:
        """Write blocks that are not there yet, in batches."""
        with self._changed:
            lacking = [block for block in blocks if not self._known.of(block.name)]
        while lacking and self._rest.is_over and self._room.is_over:
            size = max(1, min(LARGEST_BATCH, BATCH_BYTES // max(1, len(lacking[0].data))))
            self._save(lacking[:size])
            lacking = lacking[size:]
        if self._rest.is_over:
            self._ask(self._shelf.sweep)

    def touch(self, names: Sequence[Name]) -> None:
        """Do nothing: reads and look-ups mark blocks as used."""

    def pin(self, names: Sequence[Name]) -> None:
        """Do nothing: the server evicts by its configuration."""

    def retire(self, names: Sequence[Name]) -> None:
        """Let blocks expire before blocks with text of the last commit."""
        if self._rest.is_over:
            self._ask(partial(self._shelf.retire, list(map(self._sealer.name, names))))

    def remove_document(self, document: int) -> bool:
        """Remove the blocks that this process brought for a document; return whether none of them is left."""
        with self._changed:
            brought = self._brought.pop(document, {})
            self._known.note(brought, False)
            for name in brought:
                self._arrived.remove(name)
        if not brought or self._ask(partial(self._shelf.delete, list(map(self._sealer.name, brought)))) is not None:
            return True
        with self._changed:
            self._brought[document] = brought
        return False

    def share_memory(self, parts: int) -> None:
        """Do nothing: its blocks are not in this process' memory."""

    def stats(self) -> TierStats:
        """Return this process's counters; only the server knows its contents."""
        with self._changed:
            is_fresh = self._clock() < self._measured + PACE_HOLDS
            answer, block = self._pace if is_fresh else (0.0, 0.0)
            counts = {"read": self._read, "written": self._written, "damaged": self._damaged}
            return TierStats("shared", **counts, answer_seconds=answer, block_seconds=block)

    def close(self) -> None:
        """End the thread and all connections."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._shelf.close()
        self._thread.join(CLOSE_SECONDS)

    def _look(self, chain: Sequence[Name]) -> None:
        """Have a chain looked for; to be called with the lock."""
        self._looks[chain[0]] = chain
        while len(self._looks) > MOST_LOOKS:
            self._looks.popitem(last=False)
        self._changed.notify_all()

    def _fetch_unless_missing(self, chain: Sequence[Name]) -> None:
        """Have a chain fetched in place of any other; to be called with the lock."""
        if self._rest.is_over and chain[0] not in self._coming and self._known.of(chain[0]) is not False:
            self._wanted, self._coming = chain, set(chain)
            self._changed.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception as error:  # a mistake of ours: it costs the read, not the thread
                if self._is_closed:
                    return
                logger.error("reading from the shared cache failed", exc_info=error)
                with self._changed:
                    self._rest.begin()
                    self._coming.clear()

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next task; None once the tier is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._looks or self._is_closed)
            if self._is_closed:
                return None
            if self._wanted:
                wanted, self._wanted = self._wanted, ()
                return partial(self._fetch, wanted)
            return partial(self._look_for, self._looks.popitem()[1])

    def _look_for(self, chain: Sequence[Name]) -> None:
        """Find out which blocks at the beginning of a chain are there."""
        for batch in _batches(chain):
            asked = self._notes()
            found = self._ask(partial(self._shelf.exists, list(map(self._sealer.name, batch))))
            if found is None:
                return
            with self._changed:
                present = sum(1 for _ in takewhile(bool, found))
                self._known.note(batch[:present], True, asked)
                self._known.note(batch[present : present + 1], False, asked)
            if present < len(batch):
                return

    def _fetch(self, chain: Sequence[Name]) -> None:
        """Fetch a chain up to the first missing block, while there is room, or until another chain is wanted."""
        started, answer, at, size, total = self._clock(), 0.0, 0, FIRST_BATCH, 0
        while at < len(chain) and total < ARRIVED_BYTES // 2:
            batch, asked, noted = chain[at : at + size], self._clock(), self._notes()
            values = self._ask(partial(self._shelf.get_many, list(map(self._sealer.name, batch))))
            blocks = list(self._opened(batch, values or ()))
            answer = answer or self._clock() - started
            at += len(blocks)
            total += sum(len(block.data) for block in blocks)
            with self._changed:
                for block in blocks:
                    self._arrived.add(block)
                self._known.note(batch[: len(blocks)], True, noted)
                if values is not None:
                    self._known.note(batch[len(blocks) : len(blocks) + 1], False, noted)
                if self._wanted:
                    return
                self._coming.difference_update(batch)
            if len(blocks) < len(batch):
                break
            carried = self._clock() - asked - answer  # seconds, without what any answer takes on this link
            in_time = int(BATCH_SECONDS * size / carried) if carried > BATCH_SECONDS else 2 * size
            size = max(1, min(in_time, LARGEST_BATCH, BATCH_BYTES * at // max(1, total)))
        with self._changed:
            if not self._wanted:
                self._coming.clear()
            self._measured = self._clock()
            self._pace = answer, (self._measured - started) / at if at else 0.0

    def _opened(self, names: Sequence[Name], values: Sequence[bytes | None]) -> Iterator[Block]:
        """Yield the blocks of values up to the first that is missing, or not genuine: that is removed and counted."""
        for name, value in zip(names, values, strict=False):
            if value is None:
                return
            if (block := self._sealer.open(name, value)) is None:
                with self._changed:
                    self._damaged += 1
                self._warnings.warn(DAMAGED)
                self._ask(partial(self._shelf.delete, [self._sealer.name(name)]))  # else it would never be written
                return
            yield block

    def _save(self, blocks: Sequence[Block]) -> None:
        """Write the blocks of a batch that are missing there."""
        names = {self._sealer.name(block.name): block for block in blocks}
        there = self._ask(partial(self._shelf.exists, list(names)))
        if there is None:
            return
        lacking = {name: block for (name, block), is_there in zip(names.items(), there, strict=True) if not is_there}
        values = {name: self._sealer.seal(block) for name, block in lacking.items()}
        if values and self._ask(partial(self._shelf.put_many, values)) is None:
            return
        with self._changed:
            self._room.end()
            self._written += len(lacking)
            self._known.note((block.name for block in blocks), True)
            for block in lacking.values():
                self._brought.setdefault(block.document, {})[block.name] = None
            while sum(map(len, self._brought.values())) > MOST_BROUGHT:
                self._brought.popitem(last=False)

    def _notes(self) -> int:
        with self._changed:
            return self._known.notes

    def _ask(self, question: Callable[[], T]) -> T | None:
        """Return what the shelf answers, None if it fails: then it rests, or only writing if it is full."""
        try:
            answer = question()
        except ShelfError as error:
            with self._changed:
                if self._is_closed:
                    return None
                (self._room if isinstance(error, ShelfFull) else self._rest).begin()
            self._warnings.warn(str(error))
            return None
        with self._changed:
            self._rest.end()
        return answer


def _batches(chain: Sequence[Name]) -> Iterator[Sequence[Name]]:
    """Yield a chain in pieces, each twice as long as the one before."""
    at, size = 0, FIRST_BATCH
    while at < len(chain):
        yield chain[at : at + size]
        at, size = at + size, min(2 * size, LARGEST_BATCH)
