"""The suggestion against itself and the line above: small models loop."""

from __future__ import annotations

import re
from itertools import groupby

from efim_ls.completion.postprocess.place import Place, filled_lines, lines_with

EQUAL_LINES = 3
LOOP_LENGTH = 60
LONGEST_PERIOD = 30
LONGEST_RULE = 79
_RULE = re.compile(rf"([^\w\s])\1{{{LONGEST_RULE},}}")


def repetition(text: str, place: Place) -> str:
    """Keep one of three or more equal lines, one turn of a loop, and nothing that repeats the line above."""
    if _repeats_line_above(text, place):
        return ""
    return _without_loop(_without_equal_lines(_short_rules(text), place))


def _short_rules(text: str) -> str:
    """End at a line's length a rule of one mark that goes on and on."""
    endless = _RULE.search(text)
    return text[: endless.start() + LONGEST_RULE] if endless else text


def _repeats_line_above(text: str, place: Place) -> bool:
    lines = text.split("\n")
    written = [number for number, line in enumerate(lines) if line.strip()]
    if len(written) != 1:
        return False
    upto = [line.rstrip() for line in lines_with(text, place)[: written[0] + 1]]
    above = [*filled_lines(place.above)[-1:], *filter(None, upto)]
    return above[-2:-1] == above[-1:] and any(map(str.isalnum, above[-1]))


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
    """Return where the loop may end after one turn: at a line's end, else in its turn where it ends now."""
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
