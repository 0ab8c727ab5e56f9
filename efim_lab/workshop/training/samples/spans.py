"""Chooses where a training sample is cut: the anchor, the cursor and the end of the completion."""

import random
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from model_runtime.engine.stops import is_closers

WEIGHTS, REST_OF_LINE = (0.55, 0.2, 0.1, 0.15), (1, 0, 0, 0)
_LONGEST_BLOCK = 25
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Span(NamedTuple):
    """Character offsets into a window: typed anchor..cursor, middle cursor..end, tail from `tail` on."""

    anchor: int
    cursor: int
    end: int
    tail: int


def choose_span(text: str, rng: random.Random, weights: Sequence[float] = WEIGHTS) -> Span | None:
    """Choose a span of a window of lines as a completion would have it, preferably late in the window.

    `weights` are for the rest of a line, some lines more, a block, and a part of a line. Return None if all
    lines are blank. A middle that reaches the end of its line includes the line break.
    """
    lines: list[str] = _LINE.findall(text)
    written = [row for row, line in enumerate(lines) if not line.isspace()]
    if not written:
        return None
    row = written[int(max(rng.random(), rng.random()) * len(written))]
    starts = [0, *accumulate(map(len, lines))]
    cursor_column, last_row, end_column = rng.choices(_KINDS, weights)[0](lines, row, rng)
    end = starts[last_row] + end_column
    next_line = starts[last_row + 1]
    if text[end:next_line] == "\n":
        end = next_line
    tail = _tail_start(text, end, next_line)
    return Span(starts[_anchor_row(row, rng)], starts[row] + cursor_column, end, tail)


def as_served(text: str, span: Span) -> Span:
    """Begin the tail on a new line; code after the span on its line becomes part of the completion."""
    below = text.find("\n", span.end - 1) + 1 or len(text)
    return span if span.tail >= below else span._replace(end=below, tail=below)


def _tail_start(text: str, end: int, next_line: int) -> int:
    """Return where the tail starts: after the rest of the line if that is blank or only closers."""
    return next_line if is_closers(text[end:next_line]) else end


def _anchor_row(row: int, rng: random.Random) -> int:
    return row if rng.random() < 0.7 else max(0, row - rng.randint(1, 10))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _column(line: str, rng: random.Random) -> int:
    """Choose a cursor's column, from the end of the indentation to the last character."""
    return rng.randint(_indent(line), max(_indent(line), len(line.rstrip("\n")) - 1))


def _rest_of_line(lines: list[str], row: int, rng: random.Random) -> tuple[int, int, int]:
    return _column(lines[row], rng), row, len(lines[row])


def _further_lines(lines: list[str], row: int, rng: random.Random) -> tuple[int, int, int]:
    last = min(len(lines) - 1, row + rng.randint(1, 4))
    column = rng.randint(_indent(lines[row]), len(lines[row].rstrip("\n")))
    return column, last, len(lines[last])


def _block(lines: list[str], row: int, rng: random.Random) -> tuple[int, int, int]:
    """Choose up to the end of the block that the cursor's line opens or is in."""
    opens = lines[row].rstrip().endswith(":")
    depth = _indent(lines[row]) + opens
    last = row
    for below in range(row + 1, min(len(lines), row + _LONGEST_BLOCK)):
        if not lines[below].isspace():
            if _indent(lines[below]) < depth:
                break
            last = below
    return _column(lines[row], rng), last, len(lines[last])


def _within_line(lines: list[str], row: int, rng: random.Random) -> tuple[int, int, int]:
    column = _column(lines[row], rng)
    return column, row, rng.randint(column + 1, len(lines[row].rstrip("\n")))


# (lines, row) to (the cursor's column, the row and the column where the middle ends)
_KINDS = (_rest_of_line, _further_lines, _block, _within_line)
