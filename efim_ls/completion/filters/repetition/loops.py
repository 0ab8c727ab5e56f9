"""Removes loops, which small models fall into: equal lines, one turn over and over, one character over and over."""

from __future__ import annotations

import re
from itertools import groupby

from efim_ls.completion.filters.place import Place, beginning, lines_with

EQUAL_LINES = 3
LOOP_LENGTH = 60
LONGEST_PERIOD = 30
MOST_ALIKE = 8  # equal characters in a row
_RUN = re.compile(rf"(\S)\1{{{MOST_ALIKE},}}")


def repetition(text: str, place: Place) -> str:
    """Keep one of three or more equal lines, and one turn of a loop."""
    return _without_loop(_without_equal_lines(text, place))


def _without_equal_lines(text: str, place: Place) -> str:
    lines = text.split("\n")
    whole = [line.rstrip() for line in lines_with(text, place)]
    kept: list[str] = []
    for _, group in groupby(range(len(lines)), key=whole.__getitem__):
        run = list(group)
        kept += [lines[number] for number in (run[:1] if len(run) >= EQUAL_LINES else run)]
    return "\n".join(kept)


def _without_loop(text: str) -> str:
    period = _period(text[-LOOP_LENGTH:])
    if len(text) < LOOP_LENGTH or period > LONGEST_PERIOD or not any(map(str.isalnum, text[-period:])):
        return text
    start = len(text) - LOOP_LENGTH
    while start and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return text[: _end_of_turn(text, start, period)]


def _end_of_turn(text: str, start: int, period: int) -> int:
    """Return where to end the loop after one turn: at a line's end, else at the same point of the turn as now."""
    newline = text.find("\n", start + period - 1, start + 2 * period)
    return newline if newline >= 0 else start + period + (len(text) - start) % period


def _period(text: str) -> int:
    """Return the smallest p with text[i] == text[i + p] throughout, by Knuth, Morris and Pratt's borders."""
    borders = [0] * (len(text) + 1)
    border = 0
    for end in range(1, len(text)):
        while border and text[end] != text[border]:
            border = borders[border]
        border += text[end] == text[border]
        borders[end + 1] = border
    return len(text) - borders[-1]


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
