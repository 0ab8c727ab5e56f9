"""Measures the first line of suggestions at random cursors in whole files, whether or not it would be shown."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from efim_lab.gate.evaluation.figures import metrics
from efim_lab.gate.evaluation.figures.intervals import Estimate
from efim_lab.gate.evaluation.typist.figures import estimate
from efim_lab.gate.evaluation.typist.lines import TypedLine


@dataclass(frozen=True)
class RestOfLine:
    """A cursor in a line, and the suggestion for the rest of the line."""

    line: TypedLine
    cursor: int
    suggested: str


@dataclass(frozen=True)
class WholeFileFigures:
    """How well the rest of a line is suggested: shares of lines and the mean similarity, intervals over files.

    Of two sources at the same places: the paired differences of these.
    """

    exact: Estimate | None
    first_word: Estimate | None
    similarity: Estimate | None


def draw_cursors(lines: Sequence[TypedLine]) -> list[int]:
    """Draw a cursor for each line, from the end of its indentation to its last character."""
    rng = random.Random(0)
    return [rng.randint(line.start, line.end - 1) for line in lines]


def whole_file_figures(suggestions: Sequence[RestOfLine]) -> WholeFileFigures:
    """Score suggestions, one for each line."""
    return _means(suggestions, [_scores(each) for each in suggestions])


def whole_file_differences(ours: Sequence[RestOfLine], theirs: Sequence[RestOfLine]) -> WholeFileFigures:
    """Return what our suggestions score more than theirs at the same places."""
    pairs = zip(map(_scores, ours), map(_scores, theirs), strict=True)
    return _means(ours, [[our - their for our, their in zip(*pair, strict=True)] for pair in pairs])


def _scores(suggestion: RestOfLine) -> Sequence[float]:
    """Return whether a suggestion is exact, whether its first word is right, and how similar it is."""
    line, suggested = suggestion.line, suggestion.suggested
    text = line.document.text
    rest, typed = text[suggestion.cursor : line.end], text[line.start : suggestion.cursor]
    exact, first = metrics.is_exact(suggested, rest), metrics.is_first_word_right(suggested, rest, typed)
    return float(exact), float(first), metrics.similarity(suggested, rest)


def _means(suggestions: Sequence[RestOfLine], scores: Sequence[Sequence[float]]) -> WholeFileFigures:
    files = [each.line.document.path for each in suggestions]
    means = [
        estimate([(file, score[kind], 1) for file, score in zip(files, scores, strict=True)]) for kind in range(3)
    ]
    return WholeFileFigures(*means)
