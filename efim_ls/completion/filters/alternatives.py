"""Leaves out suggestions that add nothing to others for the same place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from efim_ls.completion.filters.place import Place, lines_with

MOST_TIMES = 2  # that a long line may stand in an alternative
LONG_LINE = 20  # characters without blanks: shorter lines, such as `else:`, may stand more often


def distinct(texts: Iterable[str], place: Place) -> list[str]:
    """Return the suggestions that differ from all before them in more than blanks and repeated lines.

    Empty suggestions are left out, and so are alternatives to the first one that repeat a long line over and over.
    """
    kept: dict[tuple[str, ...], str] = {}
    for text in filter(None, texts):
        lines = Counter(filter(None, ("".join(line.split()) for line in lines_with(text, place))))
        loops = any(count > MOST_TIMES and len(line) >= LONG_LINE for line, count in lines.items())
        if not (kept and loops):
            kept.setdefault(tuple(lines), text)
    return list(kept.values())
