"""How good a completion of a line's rest is, one by one; what is compared never has blanks at its end."""

from __future__ import annotations

import re

from rapidfuzz import fuzz

WORD = re.compile(r"\w+")
BEGUN = re.compile(r"\w*\Z")


def is_exact(completion: str, rest: str) -> bool:
    """Whether a completion is the rest of the line."""
    return completion.rstrip() == rest.rstrip()


def is_first_word_right(completion: str, rest: str, typed: str) -> bool:
    """Whether the word at the cursor, the next one where none is begun, becomes the word that it was.

    `typed` is the line up to the cursor, and what it has of the word counts.
    """
    (begun,) = BEGUN.findall(typed)[:1]
    return WORD.findall(begun + completion)[:1] == WORD.findall(begun + rest)[:1]


def similarity(completion: str, rest: str) -> float:
    """Edit similarity of 0..1: twice the longest common subsequence over both lengths, as rapidfuzz counts it."""
    return fuzz.ratio(completion.rstrip(), rest.rstrip()) / 100
