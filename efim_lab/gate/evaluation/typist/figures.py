"""The figures of typing: keys saved, how often something is shown, and how much of it is right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from efim_lab.gate.evaluation.figures.intervals import Estimate, ratio
from efim_lab.gate.evaluation.typist.typists import Visit


@dataclass(frozen=True)
class TypistFigures:
    """A typist's figures; their 95 % intervals come from a bootstrap over files.

    `completed` is the share of characters that suggestions brought (the ratio of completed code), `saved` the share
    of keys saved. Of the keys before which the typist looks, `shown` have a suggestion; of these, `right` are right
    to their end and `first_word` in their first word. `wrong_characters` are those shown for a line, from the first
    wrong one on; what stays on the screen while typing counts once. Figures of nothing are None.
    """

    keys: int
    completed: Estimate | None
    saved: Estimate | None
    shown: Estimate | None
    right: Estimate | None
    first_word: Estimate | None
    wrong_characters: Estimate | None


@dataclass(frozen=True)
class VisitedLine:
    """A line of a file and the keys before which a typist looked, or a selection of them."""

    file: str
    visits: Sequence[Visit]


def figures(lines: Sequence[VisitedLine]) -> TypistFigures:
    """Score what a typist did; a line without visits counts as a line."""
    return TypistFigures(
        keys=sum(len(line.visits) for line in lines),
        completed=_by_file(lines, lambda each: each.completed, lambda each: each.entered),
        saved=_by_file(lines, lambda each: each.entered - each.presses, lambda each: each.entered),
        shown=_by_file(lines, _is_shown, lambda _: 1),
        right=_by_file(lines, lambda each: each.key.is_right, _is_shown),
        first_word=_by_file(lines, lambda each: each.key.is_first_word_right, _is_shown),
        wrong_characters=estimate([(line.file, sum(each.new_wrong for each in line.visits), 1) for line in lines]),
    )


def saved_more(ours: Sequence[VisitedLine], theirs: Sequence[VisitedLine]) -> Estimate | None:
    """Return the difference in the share of keys saved at the same lines, ours less theirs, paired by file."""
    return estimate(
        [
            (line.file, _saved(line) - _saved(other), sum(each.entered for each in line.visits))
            for line, other in zip(ours, theirs, strict=True)
        ]
    )


def estimate(rows: Sequence[tuple[str, float, float]]) -> Estimate | None:
    """Return the ratio of two sums over (file, numerator, denominator), files resampled; None if below is 0."""
    above, below = defaultdict[str, float](float), defaultdict[str, float](float)
    for file, numerator, denominator in rows:
        above[file] += numerator
        below[file] += denominator
    files = [file for file in below if below[file]]
    return ratio([above[file] for file in files], [below[file] for file in files]) if files else None


def _by_file(
    lines: Sequence[VisitedLine], above: Callable[[Visit], float], below: Callable[[Visit], float]
) -> Estimate | None:
    return estimate([(line.file, above(each), below(each)) for line in lines for each in line.visits])


def _saved(line: VisitedLine) -> int:
    return sum(each.entered - each.presses for each in line.visits)


def _is_shown(visit: Visit) -> bool:
    return bool(visit.key.shown)
