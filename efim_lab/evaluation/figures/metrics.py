"""Scores single completions of the rest of a line; trailing blanks never count."""

from __future__ import annotations

import re

from rapidfuzz import fuzz

WORD = re.compile(r"\w+")
BEGUN = re.compile(r"\w*\Z")


def is_exact(completion: str, rest: str) -> bool:
    """Return whether a completion equals the rest of the line."""
    return completion.rstrip() == rest.rstrip()


def is_first_word_right(completion: str, rest: str, typed: str) -> bool:
    """Return whether the word at the cursor, or the next one if none has begun, is completed correctly.

    `typed` is the line up to the cursor; it may hold the beginning of the word.
    """
    (begun,) = BEGUN.findall(typed)[:1]
    return WORD.findall(begun + completion)[:1] == WORD.findall(begun + rest)[:1]


def similarity(completion: str, rest: str) -> float:
    """Return the edit similarity, 0 to 1: twice the longest common subsequence over both lengths (rapidfuzz)."""
    return fuzz.ratio(completion.rstrip(), rest.rstrip()) / 100
