"""Fits how sure a model's guesses are to typed lines, and to how many wrong suggestions a person bears."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from efim_ls.commands.calibration.lines import Key
from efim_ls.completion.suggestions.place_kind import spot_of
from efim_ls.completion.suggestions.sure import sure_part
from efim_ls.completion.suggestions.sureness import Facts, Sureness, first_word_end, guess_facts, logit
from efim_ls.completion.suggestions.words import words_at
from efim_ls.request import Preset

LEVEL: Preset = "balanced"
MOST_WRONG = 0.15  # of all suggestions that newly appear
LEAST_GHOSTS = 30  # fewer do not tell how many are wrong
STEP, MOST_STEPS = 0.1, 40  # by which the weights' bias falls until few enough are wrong
FARTHEST = 30.0  # logits of guesses are kept this near to zero
PULL = 10.0  # towards the weights as they were, as strong as this many guesses
NEWTON_STEPS, ENOUGH = 25, 1e-6


class Ghosts(NamedTuple):
    """Suggestions that are `new` to a person who types these `keys`, and how many of them are `wrong`."""

    new: int
    wrong: int
    keys: int

    @property
    def wrong_share(self) -> float:
        """The share of wrong suggestions among the new."""
        return self.wrong / max(1, self.new)


def fit(lines: Sequence[Sequence[Key]], by: Sureness) -> Sureness:
    """Return weights by which guesses are right as often as they are sure, and few enough suggestions wrong.

    The weights' proportions stay: a few minutes of typing tell a slope and a shift of them all.
    """
    guesses = [(by.of_guess(facts), _is_right(key, facts)) for line in lines for key, facts in _guesses(line)]
    fitted = by.scaled(*slope_and_shift(guesses)) if guesses else by
    for _ in range(MOST_STEPS):
        found = ghosts(lines, fitted)
        if found.new < LEAST_GHOSTS or found.wrong_share <= MOST_WRONG:
            break
        fitted = fitted.scaled(1.0, -STEP)
    return fitted


def ghosts(lines: Sequence[Sequence[Key]], by: Sureness) -> Ghosts:
    """Count the suggestions that newly appear by these weights to a person who accepts none."""
    new, wrong = 0, 0
    for line in lines:
        before = ""  # the rest of the last suggestion, if the key was its first character
        for key in line:
            shown = _shown(key, by)
            if shown and not (before and shown.startswith(before)):
                new += 1
                wrong += not _begins_rightly(shown, key.after)
            before = shown[1:] if shown[:1] == key.after[:1] else ""
    return Ghosts(new, wrong, sum(map(len, lines)))


def slope_and_shift(guesses: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    """Return by how much the logits of guesses are to be multiplied and raised to be right as often as they say."""
    sure = np.array([logit(probability) for probability, _ in guesses])
    right, weights = np.array([is_right for _, is_right in guesses], float), np.array([1.0, 0.0])
    rows, start = np.stack([sure, np.ones_like(sure)], axis=1), weights.copy()
    for _ in range(NEWTON_STEPS):
        chances = 1 / (1 + np.exp(-np.clip(rows @ weights, -FARTHEST, FARTHEST)))
        slope = rows.T @ (right - chances) - PULL * (weights - start)
        spread = chances * (1 - chances)
        step = np.linalg.solve((rows * spread[:, None]).T @ rows + PULL * np.eye(2), slope)
        weights += np.clip(step, -1, 1)  # where all guesses are right, a whole step goes far too far
        if np.abs(step).max() < ENOUGH:
            break
    return float(weights[0]), float(weights[1])


def _guesses(line: Sequence[Key]) -> Iterator[tuple[Key, Facts]]:
    for key in line:
        if (origin := key.origin) and origin.likelihood.text[origin.start :]:
            spot = spot_of(key.place, origin.refuted)
            yield key, guess_facts(origin.likelihood, origin.start, spot, words_at(spot, key.place), key.place)


def _is_right(key: Key, facts: Facts) -> bool:
    assert key.origin is not None
    return key.after.startswith(key.origin.likelihood.text[key.origin.start :][: facts.size])


def _shown(key: Key, by: Sureness) -> str:
    """Return what an editor shows before a key."""
    if key.origin is None:
        return ""
    return sure_part(key.origin.likelihood, key.origin.start, key.place, LEVEL, by, refuted=key.origin.refuted).shown


def _begins_rightly(shown: str, after: str) -> bool:
    """Return whether a text goes on with all of a suggestion, or with its first word, and the word ends there."""
    end = first_word_end(shown)
    if after.startswith(shown):
        return True
    following = after[end : end + 1]
    is_word = shown[end - 1 : end].isalnum() or shown[end - 1 : end] == "_"
    return after.startswith(shown[:end]) and not (is_word and (following.isalnum() or following == "_"))
