"""Where keys and values go beyond the arenas, and come back from: the protocol that an engine reads and saves by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from model_runtime.cancel import Cancel
from model_runtime.ids import Ids
from model_runtime.isolated import IsolatedExcerpts
from model_runtime.kv.arena import Arena
from model_runtime.kv.excerpt_library import ComputedExcerpt, ExcerptSource


class HeldFrame(NamedTuple):
    """A frame to be saved: its tokens, and what is computed of them and of its excerpts, which may be nothing.

    `origins` name the documents that the excerpts are from, in their order. `private` are those of them, and perhaps
    the frame's own document, that may not reach a disk. The arena may hold other tokens by now.
    """

    ids: Ids
    excerpts: IsolatedExcerpts
    origins: Sequence[str]
    private: frozenset[str]
    arena: Arena | None
    computed: Sequence[ComputedExcerpt | None]


class KvStorage(ExcerptSource, Protocol):
    """Keeps keys and values beyond the arenas. Used on the engine thread only, unless a method says otherwise.

    It pays to fetch `least` tokens or more.
    """

    least: int

    def fill(self, arena: Arena, ids: Ids, cancel: Cancel, /) -> int:
        """Append what is stored of `ids` to an arena that holds a prefix of them, and return how many tokens.

        They are stored with the excerpts that the arena has. What it holds beyond that prefix is dropped. Once
        `cancel()` is true, it ends within one read.
        """
        ...

    def filled(self, ids: Ids, computed: int, excerpts: IsolatedExcerpts, /) -> int:
        """Count the tokens of `ids` that an arena with `computed` of them, and excerpts, would hold once filled."""
        ...

    def save(self, document: str, frames: Sequence[HeldFrame], cancel: Cancel, /) -> bool:
        """Save what is computed of a document's frames, the most recent last; return false if stopped."""
        ...

    def stats(self) -> list[dict[str, object]]:
        """Return what each tier holds. On any thread."""
        ...

    def flush(self, seconds: float, /) -> bool:
        """Wait up to `seconds` until all is written; return whether it is. On any thread."""
        ...

    def close(self, seconds: float, /) -> None:
        """Write what is left for up to `seconds`, and close all files."""
        ...
