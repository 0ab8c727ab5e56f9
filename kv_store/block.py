"""Blocks: what a model computed for 16 consecutive tokens, as bytes, and their names.

A name is a chained hash over the tokens from the beginning of the sequence, so equal beginnings are the same blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

BLOCK_TOKENS = 16
NAME_BYTES = 16

Name = bytes
Bytes = npt.NDArray[np.uint8]


class BlockCodec(Protocol):
    """Turns the rows of a block's tokens into bytes and back; stateless, safe on any thread.

    Bytes have one of several forms. A form is a number that only the codec understands, and is stored with the block:
    its meaning never changes.
    """

    @property
    def exact(self) -> int:
        """The form of blocks that must come back as they were."""
        ...

    def is_exact(self, form: int) -> bool:
        """Return whether rows come back as they were."""
        ...

    def forms_at(self, rows: Any, first: int, length: int, wanted: int) -> tuple[int, int]:
        """Return the form to try for a block's rows, and a form that always fits; most blocks are `wanted`.

        The block begins at token `first` of a sequence of `length` tokens.
        """
        ...

    def size(self, form: int) -> int:
        """Return the size of a block in bytes."""
        ...

    def slot_bytes(self, form: int) -> int:
        """Return how large slots for blocks of a form are: as most blocks, or larger if some would take too many."""
        ...

    def encode(self, rows: Any, begin: int, form: int) -> Bytes:
        """Encode the rows of a block whose first token has the position `begin`, as separate bytes.

        Raises ValueError if the form cannot represent them.
        """
        ...

    def decode(self, data: Bytes, begin: int, form: int) -> Any:
        """Decode what `encode` returned, perhaps as a view of `data`; raises ValueError if the size is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class Block:
    """An immutable block.

    `parent` is the name of the block before it, `document` the tag of the document that brought it. `form` says how
    a codec reads `data`. `approximate` is true if this block, or a block that it was computed from, has a lossy form.
    """

    name: Name
    parent: Name
    document: int
    form: int
    approximate: bool
    data: Bytes


def root(fingerprint: bytes) -> Name:
    """Return the parent of a model's first blocks; names of different models never coincide."""
    return _hash(fingerprint)


def chain(first: Name, ids: npt.NDArray[np.int32]) -> list[Name]:
    """Return the names of the whole blocks of `ids`, each hashed over its parent's name and its own tokens.

    `first` is the parent of the first of them: the model's root, or the block that `ids` follow.
    """
    names, parent, tokens = list[Name](), first, ids.astype("<i4", copy=False)
    for start in range(0, len(ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        parent = _hash(parent + tokens[start : start + BLOCK_TOKENS].tobytes())
        names.append(parent)
    return names


def branch(parent: Name, seen: bytes) -> Name:
    """Return the name that a chain goes on from once its tokens depend on something else than those before them."""
    return _hash(parent + _hash(seen))


def tag(document: str) -> int:
    """Return a 64-bit number that stands for a document's name; never 0."""
    return int.from_bytes(blake2b(document.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") or 1


def _hash(data: bytes) -> Name:
    return blake2b(data, digest_size=NAME_BYTES).digest()
