"""Who has which arena: each belongs to one frame, and what frames have in common is copied, not computed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from model_runtime.arena.sequence import TokenSequence
from model_runtime.ids import Ids

S = TypeVar("S", bound=TokenSequence)
WORTH_COPYING = 16  # tokens that a copy must save


class Owner(NamedTuple):
    """A frame: the document's name, and the frame's number within it; below 0, a fork of one."""

    document: str
    frame: int = 0


class Pool(Generic[S]):
    """A handful of arenas, one for each frame that was used lately.

    Arenas are made when first needed and never freed; the least recently used one changes hands when all are taken.
    """

    def __init__(self, make: Callable[[], S], size: int) -> None:
        """Lend at most `size` arenas."""
        self._make, self.size = make, size
        self._owned: OrderedDict[Owner, S] = OrderedDict()  # least recently used first
        self._all: list[S] = []

    @property
    def wasted(self) -> int:
        """Tokens computed ahead of need that were given up before anyone needed them; may be read on any thread."""
        return sum(arena.wasted for arena in self._all)

    def acquire(self, owner: Owner, ids: Ids) -> S:
        """Return the owner's arena, filled with the longest prefix of `ids` that any arena holds."""
        holder = self.current_owner(owner)
        arena = self._new() if holder is None else self._owned.pop(holder)
        if source := self._source(ids, arena):
            arena.copy_prefix(*source)
        self._owned[owner] = arena
        return arena

    def reusable(self, owner: Owner, ids: Ids) -> int:
        """Tokens of a prompt that need no pass once its owner takes an arena; changes nothing."""
        holder = self.current_owner(owner)
        arena = None if holder is None else self._owned[holder]
        if source := self._source(ids, arena):
            return min(source[1], len(ids) - 1)
        return arena.reusable(ids) if arena else 0

    def get(self, owner: Owner) -> S | None:
        """The owner's arena, if it has one; changes nothing."""
        return self._owned.get(owner)

    def release_document(self, document: str) -> None:
        """Make the document's arenas the next to change hands; their tokens stay usable until then."""
        self.release([owner for owner in self._owned if owner.document == document])

    def release(self, owners: Iterable[Owner]) -> None:
        """Make these arenas the next to change hands."""
        for owner in owners:
            if owner in self._owned:
                self._owned.move_to_end(owner, last=False)

    def _new(self) -> S:
        arena = self._make()
        self._all.append(arena)
        return arena

    def current_owner(self, owner: Owner) -> Owner | None:
        """Who holds the arena that the owner gets: itself, nobody (it is a new one), the least recent user."""
        if owner in self._owned:
            return owner
        return None if len(self._owned) < self.size else next(iter(self._owned))

    def _source(self, ids: Ids, arena: S | None) -> tuple[S, int] | None:
        """Another arena that holds so much more of `ids` that copying pays, and how much; None if there is none."""
        held = arena.common(ids) if arena else 0
        if held + WORTH_COPYING > len(ids):
            return None
        others = [(other, other.common(ids)) for other in self._owned.values() if other is not arena]
        best = max(others, key=lambda pair: pair[1], default=None)
        return best if best and best[1] >= held + WORTH_COPYING else None
