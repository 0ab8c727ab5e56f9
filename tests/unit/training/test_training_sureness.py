"""Logistic regressions: known weights are found again, and each package is judged by weights of the others."""

from __future__ import annotations

import numpy as np
import pytest

from efim_lab.errors import WorkError
from efim_lab.training.sureness import regression
from efim_lab.training.sureness.fitting import Fitted, fit_both
from efim_lab.training.sureness.report import GUESS_INPUTS, WORD_INPUTS, module_of
from efim_ls.completion.suggestions import sureness_weights

KNOWN = np.array([-0.5, 1.5, -2.0])


def drawn(rows: int) -> tuple[regression.Floats, regression.Floats]:
    rng = np.random.default_rng(0)
    inputs = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    return inputs, (rng.random(rows) < regression.probabilities(inputs, KNOWN)).astype(float)


def test_known_weights_are_found_again() -> None:
    assert regression.fit(*drawn(20_000)) == pytest.approx(KNOWN, abs=0.1)


def test_a_package_is_judged_by_the_others() -> None:
    inputs = np.ones((4, 1))
    chances = regression.cross_validated(inputs, np.array([1.0, 1.0, 0.0, 0.0]), ["a", "a", "b", "b"])
    assert (chances[:2] < 0.01).all() and (chances[2:] > 0.99).all()


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    assert regression.area(np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.1, 0.2, 0.3, 0.3])) == 0.625


def test_the_module_written_is_the_one_shipped() -> None:
    guess, word = np.array(sureness_weights.GUESS), np.array(sureness_weights.WORD)
    written = module_of(Fitted(guess, word, 0.0, 0.0, {}))
    with open(sureness_weights.__file__, encoding="utf-8") as file:
        assert written == file.read()
    assert (len(GUESS_INPUTS), len(WORD_INPUTS)) == (len(guess), len(word))


def test_one_package_is_too_few() -> None:
    with pytest.raises(WorkError, match="two or more"):
        fit_both([])
