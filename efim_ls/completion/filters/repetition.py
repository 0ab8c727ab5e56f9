"""Removes repetition: within the suggestion, since small models loop, and of lines that the file has already."""

from __future__ import annotations

import re
from itertools import groupby

from efim_ls.completion.filters.place import Place, filled_lines, lines_with
from efim_ls.text.lines import line_end_in

EQUAL_LINES = 3
COPIED_LINES = 3  # lines with a letter or digit that make a copy
LOOP_LENGTH = 60
LONGEST_PERIOD = 30
LONGEST_RULE = 79
_RULE = re.compile(rf"([^\w\s])\1{{{LONGEST_RULE},}}")


def lines_below(text: str, place: Place) -> str:
    """Cut the last lines if they repeat the document's next lines, everything if the first lines do."""
    below = place.lines_below
    if _starts_like(below, text, place):
        return ""
    lines = [line.rstrip() for line in lines_with(text, place)]
    filled = [number for number, line in enumerate(lines) if number and line]
    for count in range(min(len(filled), len(below)), 0, -1):
        if [lines[number] for number in filled[-count:]] == below[:count]:
            return "\n".join(text.split("\n")[: filled[-count]])
    return text


def _starts_like(below: list[str], text: str, place: Place) -> bool:
    """Return whether the suggestion's whole lines begin like the document's next lines.

    Two lines are compared if both sides have two: many blocks begin with the same decorator.
    """
    first, _, later = text.partition("\n")
    if not place.before.strip() or first.strip():
        written = filled_lines(f"{place.before}{text}{place.rest}")
    else:
        written = filled_lines(later + place.rest)
    shared = min(2, len(written), len(below))
    return shared > 0 and written[:shared] == below[:shared]


def copies(text: str, place: Place) -> str:
    """Cut lines that stand in the same order elsewhere in the file, three or more, to the first of them."""
    lines = text.split("\n")
    if len(lines) < COPIED_LINES:
        return text
    whole = [line.rstrip() for line in lines_with(text, place)]
    said = [number for number, line in enumerate(lines) if any(map(str.isalnum, line))]
    end = line_end_in(place.above or place.below)
    for first, last in zip(said, said[COPIED_LINES - 1 :], strict=False):
        run = end.join(whole[first : last + 1])
        if _holds_lines(place.above, run) or _holds_lines(place.below, run):
            return "\n".join(lines[: first + 1])
    return text


def _holds_lines(text: str, run: str) -> bool:
    """Return whether whole lines of a text are equal to `run`."""
    at = text.find(run)
    while at >= 0:
        after = at + len(run)
        if text[at - 1 : at] in ("", "\n", "\r") and text[after : after + 1] in ("", "\n", "\r"):
            return True
        at = text.find(run, at + 1)
    return False


def repetition(text: str, place: Place) -> str:
    """Keep one of three or more equal lines and one turn of a loop; drop a repetition of the line above."""
    if _repeats_line_above(text, place):
        return ""
    return _without_loop(_without_equal_lines(_short_rules(text), place))


def _short_rules(text: str) -> str:
    """Cut an endless rule of one repeated character to a line's length."""
    endless = _RULE.search(text)
    return text[: endless.start() + LONGEST_RULE] if endless else text


def _repeats_line_above(text: str, place: Place) -> bool:
    lines = text.split("\n")
    written = [number for number, line in enumerate(lines) if line.strip()]
    if len(written) != 1:
        return False
    upto = [line.rstrip() for line in lines_with(text, place)[: written[0] + 1]]
    above = [*place.lines_above[-1:], *filter(None, upto)]
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
