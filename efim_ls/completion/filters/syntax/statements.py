"""Ends a suggestion where a statement ends, and tells whether one breaks off before."""

from __future__ import annotations

from efim_ls.completion.filters.place import Place
from efim_ls.completion.filters.syntax.parsed_suggestion import read
from model_runtime.engine.stops import is_closers


def whole_statements(text: str, place: Place) -> str:
    """End after the last line at which a statement ends, or after the first line if none does.

    Before code, which a suggestion leads into, and in a language without a grammar, all of it stays.
    """
    if not is_closers(place.rest):
        return text
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines, 1) if line.strip()), 1)
    for count in range(len(lines), first, -1):
        part = "\n".join(lines[:count]).rstrip()
        parsed = read(part, place)
        if parsed is None or (parsed.ends_block and not parsed.breaks_off):
            return part
    return "\n".join(lines[:first])


def breaks_off(text: str, place: Place) -> bool:
    """Return whether a suggestion ends within a statement; the head of a block ends none, but is whole."""
    parsed = read(text, place) if is_closers(place.rest) else None
    return parsed is not None and parsed.breaks_off
