"""Keys of sequences: their token ids, and the texts computed apart from them that some of their tokens see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from model_runtime.ids import Ids

Mask = Literal["typed", "head"]  # from which part of the window on tokens see the excerpts

ID = np.dtype("<i4")


@dataclass(frozen=True)
class TextsApart:
    """Texts in their order, each the bytes of its token ids, which attends to itself alone.

    A window's first `before_excerpts` tokens do not see them.
    """

    texts: tuple[bytes, ...] = ()
    before_excerpts: int = 0

    @cached_property
    def tokens(self) -> int:
        """Number of tokens of all texts."""
        return sum(map(len, self.texts)) // ID.itemsize

    @cached_property
    def salt(self) -> bytes:
        """Bytes that differ for different texts; none without any."""
        return b"".join(len(text).to_bytes(4, "little") + text for text in self.texts)

    def common(self, others: TextsApart, length: int) -> int:
        """Return how many of a window's first `length` tokens have the same keys and values with other texts."""
        if self == others:
            return length
        return min([length, *(each.before_excerpts for each in (self, others) if each.texts)])


NOTHING_APART = TextsApart()


class SequenceKey(NamedTuple):
    """What the keys and values of a window's tokens depend on: their ids, and the texts apart that they see."""

    ids: Ids
    apart: TextsApart = NOTHING_APART


class CommittedParts(NamedTuple):
    """What of a prompt is text that a commit has: its first `tokens`, with all that they see, and the `excerpts`.

    The latter are the documents whose excerpts apart are such text. `version` differs for other texts that a
    commit has of the prompt's own document.
    """

    tokens: int = 0
    excerpts: frozenset[str] = frozenset()
    version: bytes = b""


NOTHING_COMMITTED = CommittedParts()


def texts_apart(excerpts: Sequence[Ids], before_excerpts: int) -> TextsApart:
    """Return the texts of these token ids; empty lists are no texts."""
    texts = tuple(ids.astype(ID, copy=False).tobytes() for ids in excerpts if len(ids))
    return TextsApart(texts, before_excerpts) if texts else NOTHING_APART


def ids_of(text: bytes) -> Ids:
    """Return the token ids of a text."""
    return np.frombuffer(text, dtype=ID)
