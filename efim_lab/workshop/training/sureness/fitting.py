"""Fits both regressions to recorded keys, and tells what each level would then show, cross-validated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from efim_lab.gate.documents import package_of
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.ghosts.counting import Ghost, ghosts, kind_shown
from efim_lab.gate.evaluation.places.cursors import is_word
from efim_lab.gate.evaluation.typist.keys import TypedKey, key_at
from efim_lab.gate.evaluation.typist.typists import visits, whole
from efim_lab.workshop.training.observation import Floats
from efim_lab.workshop.training.sureness.recording import ARMS, RecordedKey, RecordedLine
from efim_lab.workshop.training.sureness.regression import area, cross_validated, fit
from efim_ls.completion.suggestions.place_kind import KINDS
from efim_ls.completion.suggestions.sure import Guess, is_preferred, sure_beginning
from efim_ls.completion.suggestions.sureness import guess_inputs, word_inputs
from efim_ls.request import Answer

CURVE = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)


@dataclass(frozen=True)
class Judged:
    """A key with how sure its guess is, and the surest word of the file, each by weights of other packages."""

    key: RecordedKey
    guess: float = 0.0
    word: tuple[float, str] = (0.0, "")


@dataclass(frozen=True)
class Fitted:
    """The weights of guesses and of words of the file, how well each tells right from wrong, and the judged lines."""

    guess: Floats
    word: Floats
    guess_area: float
    word_area: float
    lines: Mapping[str, Sequence[Sequence[Judged]]]


@dataclass(frozen=True)
class CurvePoint:
    """A level's figures, in percent.

    Keys before which a `new` ghost appears, the `wrong` share of these ghosts, keys `under_wrong` ghosts, and keys
    `saved` by accepting, with one key, suggestions that are right to their end.
    """

    new: float
    wrong: float
    under_wrong: float
    saved: float


def fit_both(lines: Sequence[RecordedLine]) -> Fitted:
    """Fit the weights of guesses, then of words of the file, to which the guess's sureness is a rival.

    Raises WorkError if there are too few packages or keys to fit to.
    """
    keys = [key for line in lines for key in line.keys]
    if len({_package(key) for key in keys}) < 2:
        raise WorkError("weights are judged by packages that they were not fitted to: name a folder with two or more")
    guesses = [(key, key.facts) for key in keys if key.facts]
    if not guesses:
        raise WorkError("the model suggested nothing in these lines: raise --lines, or name another folder")
    inputs = np.array([guess_inputs(facts) for _, facts in guesses])
    right = np.array([_after(key).startswith(key.text[key.start :][: facts.size]) for key, facts in guesses], float)
    chances = cross_validated(inputs, right, [_package(key) for key, _ in guesses])
    sure = {id(key): float(chance) for (key, _), chance in zip(guesses, chances, strict=True)}
    others = [
        (key, rest, facts._replace(rival=sure.get(id(key), 0.0)))
        for key in keys
        if not (key.facts and key.facts.agrees)
        for rest, facts in key.words
    ]
    if not others:
        raise WorkError("no word of a file begins like a typed word: raise --lines, or name another folder")
    word_rows = np.array([word_inputs(facts) for _, _, facts in others])
    meant = np.array([_is_meant(key, rest) for key, rest, _ in others], float)
    word_chances = cross_validated(word_rows, meant, [_package(key) for key, _, _ in others])
    best = defaultdict[int, tuple[float, str]](lambda: (0.0, ""))
    for (key, rest, _), chance in zip(others, word_chances, strict=True):
        best[id(key)] = max(best[id(key)], (float(chance), rest))

    def judged(key: RecordedKey) -> Judged:
        return Judged(key, sure.get(id(key), 0.0), best[id(key)])

    return Fitted(
        guess=fit(inputs, right),
        word=fit(word_rows, meant),
        guess_area=area(right, chances),
        word_area=area(meant, word_chances),
        lines={arm: [[*map(judged, line.keys)] for line in lines if line.arm == arm] for arm in ARMS},
    )


def shown_at(judged: Judged, least: float) -> str:
    """Return what the server shows at a level where nothing stands behind the cursor."""
    key, (sureness, word) = judged.key, judged.word
    if is_preferred(word, sureness, judged.guess, least):
        return word
    if key.facts is None or key.made_up:
        return ""
    return sure_beginning(Guess(key.text, key.start, key.spot, key.ends, key.facts.size, judged.guess), least).shown


def curve(lines: Sequence[Sequence[Judged]]) -> dict[float, CurvePoint]:
    """Return what each level shows of an arm's lines."""
    return {least: _point(_typed(lines, least)) for least in CURVE}


def wrong_by_kind(lines: Sequence[Sequence[Judged]], least: float) -> dict[str, tuple[int, float]]:
    """Return how many ghosts appear at each kind of place at a level, and the percentage of them that is wrong."""
    found = defaultdict[str, list[Ghost]](list)
    for line, typed in zip(lines, _typed(lines, least), strict=True):
        at = dict(zip(map(id, typed), line, strict=True))
        for ghost in ghosts(typed):
            found[at[id(ghost.keys[0])].key.spot.kind].append(ghost)
    return {kind: (len(found[kind]), _percent(map(_is_wrong, found[kind]))) for kind in KINDS if kind in found}


def _typed(lines: Sequence[Sequence[Judged]], least: float) -> list[list[TypedKey]]:
    return [
        [key_at("", each.key.line, each.key.cursor, Answer(shown_at(each, least))) for each in line] for line in lines
    ]


def _point(lines: Sequence[Sequence[TypedKey]]) -> CurvePoint:
    keys = [key for line in lines for key in line]
    found = [ghost for line in lines for ghost in ghosts(line)]
    seen = [visit for line in lines for visit in visits(line, whole)]
    return CurvePoint(
        new=100 * len(found) / len(keys),
        wrong=_percent(map(_is_wrong, found)),
        under_wrong=_percent(bool(key.shown) and kind_shown(key) == "wrong" for key in keys),
        saved=100 * (1 - sum(visit.presses for visit in seen) / sum(visit.entered for visit in seen)),
    )


def _is_meant(key: RecordedKey, rest: str) -> bool:
    """Return whether the finished file goes on with the rest of a word, and the word ends there."""
    after = _after(key)
    return after.startswith(rest) and not is_word(after[len(rest) : len(rest) + 1])


def _after(key: RecordedKey) -> str:
    return key.line.after(key.cursor)


def _package(key: RecordedKey) -> str:
    return package_of(key.line.document)


def _is_wrong(ghost: Ghost) -> bool:
    return ghost.kind == "wrong"


def _percent(flags: Iterable[bool]) -> float:
    found = list(flags)
    return 100 * sum(found) / max(1, len(found))
