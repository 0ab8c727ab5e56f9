"""Blocks that have come from a server, names that it is known to have, and when it is asked again if it failed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from kv_store.block import Block, Name

PRESENT_FOR, ABSENT_FOR = 600.0, 5.0  # seconds for which an answer is remembered
MOST_REMEMBERED = 1 << 16  # names
FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds after a failure, and after many in a row

Clock = Callable[[], float]


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
