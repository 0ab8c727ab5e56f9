"""Where keys and values go beyond the arenas, and come back from: the protocol that an engine reads and saves by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from model_runtime.cancel import Cancel
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import KeysValues
from model_runtime.kv.sequence import Quality
from model_runtime.sequence_key import CommittedParts, SequenceKey


class ExcerptStore(Protocol):
    """A store beyond RAM from which an excerpt's keys and values can be read back."""

    def fill_excerpt(self, arena: Arena, ids: Ids, cancel: Cancel, /) -> int:
        """Append the stored rows of an excerpt to an arena that holds a prefix of it; return how many tokens.

        Once `cancel()` is true, it waits for nothing.
        """
        ...

    def filled_excerpt(self, ids: Ids, /) -> int:
        """Count the tokens of an excerpt that are stored."""
        ...


class ComputedExcerpt(NamedTuple):
    """Keys and values of an excerpt alone, and how good the worst row is."""

    numbers: KeysValues
    quality: Quality

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.numbers[0].shape[2]


class HeldFrame(NamedTuple):
    """A frame to be saved: its key, and the computed rows of its tokens and excerpts, which may be none.

    `origins` name the documents that the excerpts are from, in their order. `private` are the documents among these
    and the frame's own that must not reach a disk. Only `committed` text may reach other machines. The arena may hold
    other tokens by now.
    """

    key: SequenceKey
    origins: Sequence[str]
    private: frozenset[str]
    committed: CommittedParts
    arena: Arena | None
    computed: Sequence[ComputedExcerpt | None]


class KvStorage(ExcerptStore, Protocol):
    """Keeps keys and values beyond the arenas. Used on the engine thread only, unless a method says otherwise.

    It pays to fetch `least` tokens or more.
    """

    least: int

    def fill(self, arena: Arena, key: SequenceKey, cancel: Cancel, row_seconds: float | None, /) -> int:
        """Append the stored rows of a key's tokens to an arena that holds a prefix of them; return how many tokens.

        The arena has the key's excerpts. Rows beyond that prefix are dropped. Once `cancel()` is true, it
        ends within one read. It waits no longer than computing would take, if it is known how many seconds a token
        takes then: `row_seconds`.
        """
        ...

    def filled(self, key: SequenceKey, computed: int, /) -> int:
        """Count the key's tokens that an arena with its excerpts and `computed` of them would hold once filled."""
        ...

    def save(self, document: str, frames: Sequence[HeldFrame], cancel: Cancel, /) -> bool:
        """Save the computed rows of a document's frames, the most recent last; return false if stopped."""
        ...

    def share_memory(self, parts: int, /) -> None:
        """Use one of `parts` equal parts of its memory; rows that only memory holds may be lost."""
        ...

    def stats(self) -> list[dict[str, object]]:
        """Return what each tier holds. On any thread."""
        ...

    def flush(self, seconds: float, /) -> bool:
        """Wait up to `seconds` until all is written; return whether it is. On any thread."""
        ...

    def close(self, seconds: float, /) -> None:
        """Write the queue for up to `seconds`, and close all files."""
        ...
