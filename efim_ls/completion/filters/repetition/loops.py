"""Removes loops, which small models fall into: the same lines, characters or signs over and over."""

from __future__ import annotations

import re
from itertools import groupby

from efim_ls.completion.filters.place import Place, beginning, has_letters, indent_of, lines_with

EQUAL_TURNS = 3  # of lines
LONGEST_TURN = 4  # lines
LOOP_LENGTH = 60
LONGEST_PERIOD = 30
MOST_ALIKE = 8  # equal characters in a row
MOST_TURNS = 5  # of signs in a row, where the suggestion ends them itself; otherwise three
ENOUGH_TURNS = 3  # left of the cursor: a further turn is not suggested
_RUN = re.compile(rf"(\S)\1{{{MOST_ALIKE},}}")
_TURNS = re.compile(rf"((?:[^\w\n]|_){{2,8}}?)\1{{{ENOUGH_TURNS},}}")
_DIGITS = re.compile(r"\d+")


def repetition(text: str, place: Place) -> str:
    """Keep one of three or more equal lines, and one turn of a loop."""
    return _without_loop(_without_ladder(_without_equal_lines(text, place), place))


def _without_equal_lines(text: str, place: Place) -> str:
    lines = text.split("\n")
    whole = [line.rstrip() for line in lines_with(text, place)]
    kept: list[str] = []
    for _, group in groupby(range(len(lines)), key=whole.__getitem__):
        run = list(group)
        kept += [lines[number] for number in (run[:1] if len(run) >= EQUAL_TURNS else run)]
    return "\n".join(kept)


def _without_ladder(text: str, place: Place) -> str:
    """End after the first of three turns of lines that differ only in numbers and in growing indentation."""
    lines = text.split("\n")
    whole = [line.rstrip() for line in lines_with(text, place)]
    for start in range(len(whole)):
        for size in range(1, min(LONGEST_TURN, (len(whole) - start) // EQUAL_TURNS) + 1):
            if _is_ladder(whole[start : start + EQUAL_TURNS * size], size):
                return "\n".join(lines[: start + size])
    return text


def _is_ladder(lines: list[str], size: int) -> bool:
    """Return whether lines are turns of `size` lines that say the same, none shallower than the turn before."""
    said = [_DIGITS.sub("0", line.strip()) for line in lines]
    if said[size:] != said[:-size] or not any(map(has_letters, said[:size])):
        return False
    depths = [len(indent_of(line)) for line in lines]
    return all(after >= before for before, after in zip(depths, depths[size:], strict=False))


def _without_loop(text: str) -> str:
    period = _period(text[-LOOP_LENGTH:])
    if len(text) < LOOP_LENGTH or period > LONGEST_PERIOD or not has_letters(text[-period:]):
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


def turns_of_signs(text: str, place: Place) -> str:
    """Keep one turn of signs that come over and over (`../`, `?, `), and none where three stand left of the cursor.

    Runs as long as one elsewhere in the file are kept, as well as the rule of a table below its head.
    """
    cursor, line = len(place.before), place.before + text
    for run in _TURNS.finditer(line):
        turn = run[1]
        count, goes_on = len(run[0]) // len(turn), turn.startswith(line[run.end() :])
        if run.end() <= cursor or len({*turn}) == 1 or not (goes_on or count > MOST_TURNS):
            continue
        if not _is_known(turn, count, place) and not _rules_table(turn, count, place):
            left = max(0, cursor - run.start()) // len(turn)
            kept = 0 if left >= ENOUGH_TURNS else run.start() + (left + 1) * len(turn) - cursor
            return beginning(text, kept, place)
    return text


def _rules_table(turn: str, count: int, place: Place) -> bool:
    return any(bar in turn and _last_line(place.near_above).count(bar) >= count for bar in "|+")


def signs(text: str, place: Place) -> str:
    """End before a character that stands more than eight times in a row, those left of the cursor included.

    A rule may be as long as another rule in the file, or as the line above, which it underlines.
    """
    cursor = len(place.before)
    start = len(place.before.rstrip(place.before[-1:])) if place.before else 0
    line = place.before + text
    for run in _RUN.finditer(line, start):
        if run.end() > cursor and not _is_known(run[1], len(run[0]), place) and not _underlines(run, place):
            return beginning(text, max(0, run.start() - cursor), place)
    return text


def _is_known(turn: str, count: int, place: Place) -> bool:
    """Return whether turns stand in the file, no more and no fewer in a row."""
    sign = re.escape(turn)
    whole = re.compile(rf"(?<!{sign})(?:{sign}){{{count}}}(?!{sign})")
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
