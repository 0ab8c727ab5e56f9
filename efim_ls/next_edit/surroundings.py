"""Where a place lies, and whether it is in a string or a comment, by its line."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

from efim_ls.languages.table import LANGUAGES
from efim_ls.next_edit.pattern import Occurrence

QUOTES = "\"'`"


def in_comment(left: Sequence[str], language: str) -> bool:
    """Return whether a comment begins among the tokens before a place, or its line is one of a block's."""
    line = "".join(left)
    return LANGUAGES[language].comment in line or line.lstrip().startswith(("/*", "* "))


def in_string(left: Sequence[str]) -> bool:
    """Return whether a quote is open after the tokens before a place."""
    return any(left.count(quote) % 2 for quote in QUOTES)


def position(place: Occurrence, found: Sequence[tuple[int, int, int]], before: int, last: int) -> dict[str, float]:
    """Return where a place lies, seen from the last two examples, and which that fit as well were passed over."""
    direction = 1 if last >= before else -1
    alike = [line for line, left, right in found if left >= place.left and right >= place.right]
    passed = [line for line in alike if (line - last) * direction < 0]
    skipped = sum((line - before) * direction > 0 for line in passed)
    return {
        "ahead": (place.line - last) * direction > 0,
        "within": (place.line - last) * direction < 0 < (place.line - before) * direction,
        "skipped": log1p(skipped),
        "behind": log1p(len(passed) - skipped),
        "near": min(abs(place.line - last), abs(place.line - before)) <= 2,
    }
