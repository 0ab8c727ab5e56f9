"""Removes loops, which small models fall into: equal lines, and one turn over and over."""

from __future__ import annotations

from itertools import groupby

from efim_ls.completion.filters.place import Place, lines_with

EQUAL_LINES = 3
LOOP_LENGTH = 60
LONGEST_PERIOD = 30


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
