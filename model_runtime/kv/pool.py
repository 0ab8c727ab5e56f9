"""Assigns arenas to frames: each belongs to one frame, and a prefix that frames share is copied, not computed."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from model_runtime.kv.sequence import TokenSequence
from model_runtime.sequence_key import SequenceKey

S = TypeVar("S", bound=TokenSequence)
MIN_COPIED = 16  # tokens that a copy must save

logger = logging.getLogger(__name__)


class FrameId(NamedTuple):
    """A frame: its document's name and its number there; forks have negative numbers, and no document."""

    document: str
    frame: int = 0


class Pool(Generic[S]):
    """A handful of arenas, one for each recently used frame.

    Arenas are allocated when first needed and never freed, but at rest, and beyond the pool's size, they give their
    memory back. A released arena is reused before another is allocated; when all are taken, the least recently
    used one is.
    """

    def __init__(self, make: Callable[[], S], size: int, place: Callable[[S], None] | None = None) -> None:
        """Lend at most `size` arenas; `place` writes the keys and values of an arena's excerpts into it."""
        self._make, self.size, self._place = make, size, place
        self._owned: OrderedDict[FrameId, S] = OrderedDict()  # least recently used first
        self._acquired: dict[FrameId, float] = {}  # the last time, by a monotonic clock
        self._released: dict[FrameId, None] = {}  # the first released first
        self._all: list[S] = []
        self._free: list[S] = []  # that nobody owns
        self._parked: list[S] = []  # empty, and beyond the present size

    @property
    def wasted(self) -> int:
        """Tokens computed ahead of need and dropped before they were needed; may be read on any thread."""
        return sum(arena.rows.wasted for arena in self._all)

    def acquire(self, owner: FrameId, key: SequenceKey, min_copied: int = MIN_COPIED) -> S:
        """Return the owner's arena with the key's excerpts and the longest prefix of its tokens that any arena holds.

        A prefix is copied from another arena if that saves `min_copied` tokens. Raises MemoryError if there is no
        memory for the first arena; where there is none for a later one, those that are there serve all owners.
        """
        previous = self.current_owner(owner)
        if previous is None and not self._free and self.provide(self._present + 1) == len(self._owned):
            previous = self.current_owner(owner)
        self._released.pop(previous or owner, None)
        arena = self._free.pop() if previous is None else self._owned.pop(previous)
        if previous != owner:
            arena.change_owner()
        if arena.enter(key.apart) and self._place:
            self._place(arena)
        if source := self._source(key, arena, min_copied):
            arena.copy_prefix(*source)
        self._owned[owner] = arena
        self._acquired.pop(previous or owner, None)
        self._acquired[owner] = monotonic()
        return arena

    def reusable(self, owner: FrameId, key: SequenceKey) -> int:
        """Count the tokens of a prompt that will need no pass once its owner acquires an arena; changes nothing."""
        previous = self.current_owner(owner)
        arena = None if previous is None else self._owned[previous]
        if source := self._source(key, arena):
            arena, held = source
            return min(held, arena.resumes_at(len(key.ids) - 1))
        return arena.reusable(key) if arena else 0

    def ahead(self, owner: FrameId, key: SequenceKey) -> int:
        """Count the reusable tokens that were prefetched for this owner; changes nothing."""
        previous = self.current_owner(owner)
        arena = None if previous is None else self._owned[previous]
        if arena is None or self._source(key, arena):
            return 0
        return arena.rows.ahead(arena.kept(key))

    def get(self, owner: FrameId) -> S | None:
        """Return the owner's arena, if it has one; changes nothing."""
        return self._owned.get(owner)

    @property
    def arenas(self) -> list[S]:
        """All arenas that hold tokens, the most recently used first."""
        return [arena for arena in reversed(self._owned.values()) if arena.length]

    def release_document(self, document: str) -> None:
        """Make the document's arenas the next to be reused; their tokens stay usable until then."""
        self.release([owner for owner in self._owned if owner.document == document])

    def release(self, owners: Iterable[FrameId]) -> None:
        """Make these owners' arenas the next to be reused, after those that were released before."""
        self._released |= dict.fromkeys(owner for owner in owners if owner in self._owned)

    def give_back(self, seconds: float, kept: FrameId | None) -> None:
        """Empty and release the arenas unused for `seconds`, except the arena of the `kept` owner."""
        latest = monotonic() - seconds
        resting = [owner for owner, at in self._acquired.items() if owner != kept and at <= latest]
        for owner in resting:
            self._owned[owner].give_back()
        self.release(resting)

    def provide(self, count: int) -> int:
        """Allocate arenas up to `count` of them, if size and memory allow; return how many there are.

        Raises MemoryError if there is no memory for the first one.
        """
        while self._present < min(count, self.size):
            if self._parked:
                self._free.append(self._parked.pop())
                continue
            try:
                arena = self._make()
            except MemoryError:
                if not self._all:
                    raise
                self.size = len(self._all)
                logger.warning(
                    "there is no memory for more than the keys and values of %d places, so others wait for theirs: "
                    "lower memory_mib or end other programs",
                    self.size,
                )
                break
            self._all.append(arena)
            self._free.append(arena)
        return self._present

    def resize(self, size: int) -> None:
        """Lend at most `size` arenas from now on; those that are too many, the next to be reused, are emptied."""
        self.size = size
        while self._present > size:
            if not self._free:
                owner = next(iter(self._released), None) or next(iter(self._owned))
                self._free.append(self._owned.pop(owner))
                self._acquired.pop(owner, None)
                self._released.pop(owner, None)
            arena = self._free.pop()
            arena.change_owner()
            arena.give_back()
            self._parked.append(arena)

    @property
    def _present(self) -> int:
        """How many arenas are owned or free."""
        return len(self._all) - len(self._parked)

    def current_owner(self, owner: FrameId) -> FrameId | None:
        """Return the present owner of the arena that `owner` would get; None for an arena that nobody has owned.

        That is itself, else the owner of the first released arena, nobody, or the least recently used owner.
        """
        if owner in self._owned:
            return owner
        if self._released:
            return next(iter(self._released))
        return None if len(self._owned) < self.size else next(iter(self._owned))

    def _source(self, key: SequenceKey, arena: S | None, min_copied: int = MIN_COPIED) -> tuple[S, int] | None:
        """Return the arena whose prefix of the key's tokens is worth copying, and its length, or None."""
        held = arena.kept(key) if arena else 0
        if held + min_copied > len(key.ids):
            return None
        others = [(other, other.kept(key)) for other in self._owned.values() if other is not arena]
        best = max(others, key=lambda pair: pair[1], default=None)
        return best if best and best[1] >= held + min_copied else None
