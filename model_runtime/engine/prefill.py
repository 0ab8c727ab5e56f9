"""Steps that fill an arena before the model computes the rest of a prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from model_runtime.cancel import Cancel
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.storage import ComputedExcerpt, ExcerptStore
from model_runtime.sequence_key import SequenceKey, TextsApart


class Filled(NamedTuple):
    """How many of a prompt's tokens a step has fetched, and how many it has computed."""

    fetched: int = 0
    computed: int = 0


NOTHING_FILLED = Filled()

# Fills an arena with tokens of a key that it lacks, and ends soon after `cancel()` is true. If the flag says that it
# runs ahead of need, a step approximates nothing, and makes its earlier approximations exact.
PrefillStep = Callable[[Arena, SequenceKey, Cancel, bool], Filled]


class Readied(NamedTuple):
    """Whether all excerpts are in RAM now, and how many of their tokens were computed and fetched for that."""

    complete: bool
    computed: int = 0
    fetched: int = 0


class TextLibrary(Protocol):
    """The texts that an engine computes apart from windows, by the bytes of their token ids."""

    def ready(
        self,
        texts: TextsApart,
        source: ExcerptStore | None,
        compute: Callable[[Ids, Arena], None],
        chunk: int,
        cancel: Cancel,
        /,
    ) -> Readied:
        """Fetch texts from the source and `compute` the others, `chunk` tokens at once, until `cancel()` is true."""
        ...

    def get(self, text: bytes, /) -> ComputedExcerpt | None:
        """Return a text that is in RAM, else None; changes nothing."""
        ...

    def known(self, texts: TextsApart, source: ExcerptStore | None, /) -> tuple[int, int]:
        """Count the tokens of texts that are in RAM, and the tokens that the source has; changes nothing."""
        ...

    def place(self, arena: Arena, /) -> None:
        """Write the texts of an arena, which are ready, into its rows before the window."""
        ...
