"""Measures the first line of suggestions at random cursors in whole files, whether or not it would be shown."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from efim_lab.evaluation.figures import metrics
from efim_lab.evaluation.figures.intervals import Estimate
from efim_lab.evaluation.typist.figures import estimate
from efim_lab.evaluation.typist.lines import TypedLine


@dataclass(frozen=True)
class RestOfLine:
    """A cursor in a line, and what is suggested for the rest of the line."""

    line: TypedLine
    cursor: int
    suggested: str


@dataclass(frozen=True)
class WholeFileFigures:
    """How well the rest of a line is suggested: shares of lines and the mean similarity, intervals over files."""

    exact: Estimate | None
    first_word: Estimate | None
    similarity: Estimate | None


def draw_cursors(lines: Sequence[TypedLine]) -> list[int]:
    """Draw a cursor for each line, from the end of its indentation to its last character."""
    rng = random.Random(0)
    return [rng.randint(line.start, line.end - 1) for line in lines]


def whole_file_figures(suggestions: Sequence[RestOfLine]) -> WholeFileFigures:
    """Score suggestions, one for each line."""
    exact, first_word, similarity = list[float](), list[float](), list[float]()
    for each in suggestions:
        text, line = each.line.document.text, each.line
        rest, typed = text[each.cursor : line.end], text[line.start : each.cursor]
        exact.append(metrics.is_exact(each.suggested, rest))
        first_word.append(metrics.is_first_word_right(each.suggested, rest, typed))
        similarity.append(metrics.similarity(each.suggested, rest))
    files = [each.line.document.path for each in suggestions]
    means = [
        estimate([(file, score, 1) for file, score in zip(files, scores, strict=True)])
        for scores in (exact, first_word, similarity)
    ]
    return WholeFileFigures(*means)
