"""Random spans taken out of held-out lines with code after them, to measure suggestions inside a line."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.places.cursors import (
    Context,
    draw_increment,
    is_word,
    line_at,
    shuffled_lines,
    window_at,
)
from model_runtime.engine.stops import is_closers

SHORTEST_HOLE, LONGEST_HOLE = 2, 20  # characters of a span


@dataclass(frozen=True)
class Hole:
    """A cursor before code: `span` was taken out there, and `rest` follows it on the line."""

    context: Context
    span: str
    rest: str


def choose_holes(documents: Sequence[CodeDocument], count: int) -> list[Hole]:
    """Choose a span in each of up to `count` lines; determined by the documents, fewer are the first of more."""
    rng = random.Random(0)
    made = (_hole(document.text, row, rng) for document, row in shuffled_lines(documents, rng))
    return list(islice((hole for hole in made if hole), count))


def _hole(text: str, row: int, rng: random.Random) -> Hole | None:
    line, start = line_at(text, row)
    spans = list(_spans(line))
    if not spans:
        return None
    cursor, end = rng.choice(spans)
    context = window_at(text, start + cursor, start + len(line), draw_increment(rng))
    return Hole(context, line[cursor:end], line[end:])


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield every span that is not blank and ends before code, but not inside a word."""
    indent = len(line) - len(line.lstrip())
    for end in range(indent + SHORTEST_HOLE, len(line)):
        if not (is_word(line[end - 1]) and is_word(line[end]) or is_closers(line[end:])):
            starts = range(max(indent, end - LONGEST_HOLE), end - SHORTEST_HOLE + 1)
            yield from ((start, end) for start in starts if line[start:end].strip())
