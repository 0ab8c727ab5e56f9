"""What one client adds to an index that others use, too: its open documents, in place of their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from efim_ls.workspace.files.context import ClientContext, RetrievalPlace
from efim_ls.workspace.files.counts import Digests, IndexedText, documents, fitting, new
from model_runtime.counts.snapshot import EMPTY, Counts
from model_runtime.ids import Ids

MIB = 1024 * 1024


@dataclass(frozen=True)
class IndexStatus:
    """The size of the index: files and tokens in all memories that a client sees.

    While files are read, `done` of `total` have been.
    """

    state: Literal["building", "ready"]
    done: int
    total: int
    files: int
    tokens: int
    mib: float

    @property
    def percentage(self) -> int:
        """How much is done, in percent."""
        return 100 * self.done // self.total if self.total else 0


def _ignore(*_: object) -> None:
    """Tell nobody."""


class Overlay:
    """One client's open documents over the files of an index, of which no other client sees anything.

    Used on the index's thread, except `counts`, `status` and `context`. `wanted` is changed under the thread's lock.
    """

    def __init__(
        self, on_status: Callable[[IndexStatus], None] = _ignore, on_context: Callable[[], None] = _ignore
    ) -> None:
        """Start without documents; callbacks are called on the index's thread, and must not raise."""
        self.status: IndexStatus | None = None  # until an index is there
        self.context = ClientContext()
        self.opened: dict[str, IndexedText] = {}  # by path
        self.counts: Mapping[str, Counts] = {}  # by family: files, with open documents; replaced whole
        self.wanted: RetrievalPlace | None = None  # that code is to be looked up for
        self.on_context, self._on_status = on_context, on_status
        self._made_of: tuple[Mapping[str, Counts], Mapping[str, Digests]] = ({}, {})

    @property
    def tokens(self) -> int:
        """Number of tokens of the open documents."""
        return sum(each.tokens for each in self.opened.values())

    def publish(self, files: Mapping[str, Counts], ids: Mapping[bytes, Ids], free: int) -> None:
        """Count the open documents that fit `free` tokens in place of their files; `ids` has theirs."""
        opened = fitting(self.opened, self.opened, free)
        if self._made_of == (files, opened):
            return
        every = {path for digests in opened.values() for path in digests}
        counts = dict[str, Counts]()
        for family in {*files, *opened}:
            begun, mine = files.get(family, EMPTY), opened.get(family, {})
            counts[family] = begun.with_changes(every - mine.keys(), documents(new(begun, mine), ids))
        self._made_of, self.counts = (files, opened), counts

    def tell(self, state: Literal["building", "ready"], done: int, total: int) -> None:
        """Report the status."""
        memories = self.counts.values()
        files, tokens = sum(len(each.paths) for each in memories), sum(each.tokens for each in memories)
        mib = round(sum(each.bytes for each in memories) / MIB, 1)
        self.status = IndexStatus(state, done, total, files, tokens, mib)
        self._on_status(self.status)
