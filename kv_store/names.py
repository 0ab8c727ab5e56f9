"""What blocks are called: a chain of hashes over the tokens from the beginning, so that equal heads are one block."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

TOKENS = 16  # of a block
NAME_BYTES = 16

Name = bytes


def root(fingerprint: bytes) -> Name:
    """The parent of every first block of a model: names of different models have nothing in common."""
    return _hash(fingerprint)


def chain(first: Name, ids: npt.NDArray[np.int32]) -> list[Name]:
    """The names of the whole blocks of `ids`, each hashed over its parent's name and its own tokens.

    `first` is the parent of the first of them: the model's root, or the block that the ids follow.
    """
    names, parent, tokens = list[Name](), first, ids.astype("<i4", copy=False)
    for start in range(0, len(ids) - TOKENS + 1, TOKENS):
        parent = _hash(parent + tokens[start : start + TOKENS].tobytes())
        names.append(parent)
    return names


def tag(document: str) -> int:
    """A document's name as a number of 64 bits, never 0."""
    return int.from_bytes(blake2b(document.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") or 1


def _hash(data: bytes) -> Name:
    return blake2b(data, digest_size=NAME_BYTES).digest()
