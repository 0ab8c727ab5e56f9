"""Ends a suggestion before a character that is written over and over."""

from __future__ import annotations

import re

from efim_ls.completion.filters.place import Place, beginning

MOST_ALIKE = 8  # equal characters in a row
_RUN = re.compile(rf"(\S)\1{{{MOST_ALIKE},}}")


def signs(text: str, place: Place) -> str:
    """End before a character that stands more than eight times in a row, those left of the cursor included.

    A rule may be as long as another one in the file, or as the line above, which it underlines.
    """
    cursor = len(place.before)
    start = len(place.before.rstrip(place.before[-1:])) if place.before else 0
    line = place.before + text
    for run in _RUN.finditer(line, start):
        if run.end() > cursor and not _is_known(run[0], place) and not _underlines(run, place):
            return beginning(text, max(0, run.start() - cursor), place)
    return text


def _is_known(run: str, place: Place) -> bool:
    """Return whether a run of a character stands in the file, no longer and no shorter."""
    sign = re.escape(run[0])
    whole = re.compile(rf"(?<!{sign}){sign}{{{len(run)}}}(?!{sign})")
    return any(whole.search(part) for part in (place.above, place.below))


def _underlines(run: re.Match[str], place: Place) -> bool:
    """Return whether a run ends its line below a line of the same beginning and width."""
    above, _, line = run.string[: run.end()].rpartition("\n")
    above = above.rpartition("\n")[2] if run.string.find("\n", 0, run.end()) >= 0 else _last_line(place.near_above)
    begun = len(line) - len(run[0])
    ended = run.string[run.end() : run.end() + 1] in ("", "\n")
    return ended and above[:begun] == line[:begun] and len(above.rstrip()) == len(line)


def _last_line(text: str) -> str:
    return (text.splitlines() or [""])[-1]
