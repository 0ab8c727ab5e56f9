"""Computes from typed keys, without the model, their suggestions at other levels of the setting `suggestions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from efim_lab.gate.evaluation.typist.figures import TypistFigures, VisitedLine, figures
from efim_lab.gate.evaluation.typist.keys import TypedKey
from efim_lab.gate.evaluation.typist.typists import TYPISTS, visits
from efim_ls.completion.suggestions.sure import shown_part
from model_runtime.engine.output import TextProbability, WordEnd

LEVELS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)


class RecordedLikelihood(TextProbability):
    """How likely each beginning of a suggestion is, by the words of the answer that brought it."""

    def __init__(self, text: str, words: Sequence[tuple[str, float]]) -> None:
        """Take a suggestion from the cursor on, and its words with their probabilities."""
        self.text = text
        self._words = words

    def word_ends(self, start: int = 0) -> list[WordEnd]:
        """Return the places where a word or a sign ends; `start`, the cursor, is 0."""
        found, at, joint = list[WordEnd](), start, 1.0
        for piece, probability in self._words:
            at += len(piece)
            joint *= probability
            found.append(WordEnd(at, joint))
        return found


def at_level(key: TypedKey, least: float) -> TypedKey:
    """Return a key as it would be if shown text had to have this probability; a key without words is unchanged."""
    if not key.words:
        return key
    cut = shown_part(RecordedLikelihood(key.shown + key.hidden, key.words), 0, least)
    return replace(key, shown=cut.shown, hidden=cut.hidden, confidence=cut.probability)


def figures_by_level(lines: Sequence[Sequence[TypedKey]]) -> Mapping[float, Mapping[str, TypistFigures]]:
    """Return each typist's figures at every level, for the keys of typed lines; empty if no key has words."""
    if not any(key.words for line in lines for key in line):
        return {}
    return {least: _figures([[at_level(key, least) for key in line] for line in lines]) for least in LEVELS}


def _figures(lines: Sequence[Sequence[TypedKey]]) -> dict[str, TypistFigures]:
    return {
        name: figures([VisitedLine(line[0].file, visits(line, typist)) for line in lines])
        for name, typist in TYPISTS.items()
    }
