"""Logistic regressions by Newton's method, each row judged by weights of the other packages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from efim_lab.workshop.training.observation import Floats

PARTS = 5  # of the packages, for cross-validation
_PULL = 1.0  # towards weights of zero, except for the first, the bias
_STEPS, _ENOUGH, _FARTHEST = 25, 1e-6, 30.0


def fit(inputs: Floats, right: Floats) -> Floats:
    """Return the weights [inputs] under which rows [rows, inputs] are most likely right as they were [rows].

    A small penalty keeps what few rows show near zero, and the solution finite.
    """
    weights = np.zeros(inputs.shape[1])
    pull = np.eye(inputs.shape[1]) * _PULL
    pull[0, 0] = _ENOUGH
    for _ in range(_STEPS):
        chances = probabilities(inputs, weights)
        slope = inputs.T @ (right - chances) - pull @ weights
        step = np.linalg.solve((inputs * (chances * (1 - chances))[:, None]).T @ inputs + pull, slope)
        weights += step
        if np.abs(step).max() < _ENOUGH:
            break
    return weights


def probabilities(inputs: Floats, weights: Floats) -> Floats:
    """Return the probability [rows] that each row is right."""
    return 1 / (1 + np.exp(-np.clip(inputs @ weights, -_FARTHEST, _FARTHEST)))


def cross_validated(inputs: Floats, right: Floats, packages: Sequence[str]) -> Floats:
    """Return the probability [rows] that each row is right, by weights fitted without its part of the packages."""
    part = {name: index % PARTS for index, name in enumerate(sorted(set(packages)))}
    parts, found = np.array([part[name] for name in packages]), np.zeros(len(right))
    for each in set(part.values()):
        held_out = parts == each
        found[held_out] = probabilities(inputs[held_out], fit(inputs[~held_out], right[~held_out]))
    return found


def area(right: Floats, chances: Floats) -> float:
    """Return how often a right row is surer than a wrong one (the area under the ROC curve); ties count half."""
    _, index, counts = np.unique(chances, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[index]
    good = right.sum()
    return float((ranks[right > 0].sum() - good * (good + 1) / 2) / (good * (len(right) - good)))
