"""Estimates with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

Z = 1.959964  # the normal distribution's 97.5 % quantile
RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A figure and the bounds of its 95 % confidence interval."""

    value: float
    low: float
    high: float


def proportion(hits: Sequence[bool]) -> Estimate:
    """Return the share of hits with Wilson's interval; there must be at least one trial."""
    n, share = len(hits), sum(hits) / len(hits)
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return Estimate(share, min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half)))


def mean(values: Sequence[float]) -> Estimate:
    """Return the mean with its percentile bootstrap interval; of paired differences, a paired bootstrap."""
    return ratio(values, [1.0] * len(values))


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """Return the ratio of two sums over the same places, which are resampled together; reproducible."""
    above, below = np.array(numerators, dtype=float), np.array(denominators, dtype=float)
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(above), (RESAMPLES, len(above)))
    low, high = np.quantile(above[drawn].sum(axis=1) / below[drawn].sum(axis=1), (0.025, 0.975))
    return Estimate(float(above.sum() / below.sum()), float(low), float(high))
