"""How good a completion of a line's rest is, one by one; what is compared never has blanks at its end."""

from __future__ import annotations

import re

from rapidfuzz import fuzz

# A word's characters or a run of signs, whichever comes first: the rest of a line may begin inside a word.
FIRST_WORD = re.compile(r"\w+|[^\w\s]+")


def is_exact(completion: str, rest: str) -> bool:
    """Whether a completion is the rest of the line."""
    return completion.rstrip() == rest.rstrip()


def is_first_word_right(completion: str, rest: str) -> bool:
    """Whether a completion begins with the first word of the rest, or with its first signs where they come first."""
    return _first_word(completion) == _first_word(rest)


def similarity(completion: str, rest: str) -> float:
    """Edit similarity of 0..1: twice the longest common subsequence over both lengths, as rapidfuzz counts it."""
    return fuzz.ratio(completion.rstrip(), rest.rstrip()) / 100


def _first_word(text: str) -> str:
    found = FIRST_WORD.search(text)
    return found[0] if found else ""
