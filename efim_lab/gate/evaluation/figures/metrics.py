"""Scores single completions of the rest of a line; trailing blanks never count."""

from __future__ import annotations

import keyword
import re

from rapidfuzz import fuzz

WORD = re.compile(r"\w+")
BEGUN = re.compile(r"\w*\Z")
NAME = re.compile(r"\b[^\W\d]\w*")
QUOTED = re.compile(r"""\w*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|#.*""")  # a string with its prefix, a comment
KEYWORDS = frozenset(keyword.kwlist)


def is_exact(completion: str, rest: str) -> bool:
    """Return whether a completion equals the rest of the line."""
    return completion.rstrip() == rest.rstrip()


def is_first_word_right(completion: str, rest: str, typed: str) -> bool:
    """Return whether the word at the cursor is completed correctly, or the next word if the cursor is at no word.

    `typed` is the line up to the cursor; it may hold the beginning of the word.
    """
    (begun,) = BEGUN.findall(typed)[:1]
    return WORD.findall(begun + completion)[:1] == WORD.findall(begun + rest)[:1]


def similarity(completion: str, rest: str) -> float:
    """Return the edit similarity, 0 to 1: twice the longest common subsequence over both lengths (rapidfuzz)."""
    return fuzz.ratio(completion.rstrip(), rest.rstrip()) / 100


def is_same_code(completion: str, target: str) -> bool:
    """Return whether two texts of one or more lines are equal, apart from blank lines and blanks at ends of lines."""
    return _lines(completion) == _lines(target)


def identifiers(text: str) -> set[str]:
    """Return the names in a piece of Python, without keywords, strings and comments; it need not be whole."""
    return set(NAME.findall(QUOTED.sub(" ", text))) - KEYWORDS


def identifier_f1(completion: str, target: str) -> float:
    """Return the F1 score of the identifiers that a completion has, 1 if neither text has any (arXiv 2310.11248)."""
    ours, theirs = identifiers(completion), identifiers(target)
    if not ours and not theirs:
        return 1.0
    return 2 * len(ours & theirs) / (len(ours) + len(theirs))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]
