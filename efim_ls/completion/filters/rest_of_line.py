"""Removes from a suggestion what already stands right of the cursor: code, or closers alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from efim_ls.completion.filters.balance import Balance, BalancedCode
from efim_ls.completion.filters.place import Place
from model_runtime.engine.stops import CLOSING, is_closers, text_before_rest

_ANGLE = re.compile(rf"[\s{re.escape(CLOSING)}]*>")


def before_code(text: str, place: Place) -> str:
    """Keep the part of the first line before the code that follows the cursor; nothing if it never reaches it.

    The result no longer contains that code, so apply this filter once, to the model's own text.
    """
    return text if is_closers(place.rest) else text_before_rest(text, place.rest)


def rest_of_line(text: str, place: Place) -> str:
    """Remove closers and punctuation that the rest of the line already contains."""
    rest = place.rest.strip()
    if not rest or not is_closers(rest):
        return text
    cut = _cut(text.rstrip(), rest, place)
    if cut is None:
        return text
    return text[:cut].rstrip(" \t") if place.rest[0].isspace() else text[:cut]


def _cut(text: str, rest: str, place: Place) -> int | None:
    """Return where the suggestion meets the rest of the line, or None if they do not overlap.

    The brackets and strings of the whole line decide, so that a closer of what the suggestion opened stays.
    """
    start, code = len(place.before), BalancedCode(place.before + text, _ANGLE.match(rest) is not None)
    without, whole = code.cut(start, place.rest), code.cut(start + len(text), place.rest)
    spills = whole.unmatched > without.unmatched or whole.quote not in ("", without.quote)
    for cut in _inner_cuts(text, rest) if spills and rest[0] in CLOSING else _outer_cuts(text, rest):
        left = code.cut(start + cut, place.rest)
        if left == whole or (spills and _no_worse(left, without)):
            return cut
    return None


def _no_worse(left: Balance, without: Balance) -> bool:
    same = (left.unmatched, left.quote) == (without.unmatched, without.quote)
    return same and left.open <= without.open


def _inner_cuts(text: str, rest: str) -> Iterator[int]:
    """Yield offsets where `rest`, else its first closer, is repeated."""
    yield from (cut for cut in range(len(text) - len(rest), -1, -1) if text.startswith(rest, cut))
    yield from (cut for cut, character in enumerate(text) if character == rest[0])


def _outer_cuts(text: str, rest: str) -> Iterator[int]:
    """Yield offsets where a final `rest` begins, also of the first line if it is punctuation, or a part of `rest`."""
    lines = [text] if rest[0] in CLOSING else [text, text.split("\n", 1)[0].rstrip()]
    ends = [len(each) - len(rest) for each in lines if each.endswith(rest)]
    parts = [len(text) - size for size in range(min(len(rest) - 1, len(text)), 0, -1) if text.endswith(rest[:size])]
    yield from ends + parts
