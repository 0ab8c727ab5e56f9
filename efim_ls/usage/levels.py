"""The confidence from which suggestions are shown in each language, learnt from what the user kept of those shown.

A logistic regression with a prior, for each language on its own, over the bins of the statistics:

    logit P(kept) = habit + SLOPE * logit(confidence)

The prior describes a typical user, to whom the default level belongs. That level says how often a suggestion must be
kept to be worth showing: as often as a typical user keeps one of just that confidence. The learnt level is the
confidence at which this user does.

Suggestions below the level are not shown, so nothing is learnt of them. Two choices keep a raised level from
confirming itself: users are compared with what is usual at the same confidence, and the slope is fixed, since what is
shown says little of it. Whoever keeps as usual what is still shown gets the default back, and what is older than
`DAYS` is forgotten.

Whether the cursor stands inside a word adds nothing to the confidence: its effect on the logit was -0.02 +- 0.19 and
0.17 +- 0.21 where the slope was measured. Suggestions of several lines are too rare to tell (2 of 1,922).
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from efim_ls.paths import cache_folder
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.usage.confidence_bins import BinCounts, ConfidenceBin
from efim_ls.usage.history import STATISTICS, bins_since

DAYS = 90  # days, today included, whose counts are read
# Measured with a typist who takes every suggestion of two characters or more that is right to its end, key by key
# through held-out lines at a level of 0.2: 0.28 +- 0.05 in rich, jinja2, click and cattrs (1,306 suggestions), and
# 0.46 +- 0.10 in asyncio and networkx (616).
SLOPE = 0.4
# At which 27 % of these suggestions are kept, as many as are accepted elsewhere (arXiv:2205.06537); that typist takes
# 33 and 36 %.
TYPICAL_HABIT = -0.85
# Of the typical habit: as much as 500 suggestions, each of which weighs P(kept) * (1 - P(kept)).
PRIOR_WEIGHT = 100.0
# Bounds of the learnt level, as odds over the default's: 15 % and 50 % where that is 20 %. There such a typist saves
# 42 and 36 % of the keys (41 % at the default), and 63 and 85 % of what is shown is right (67 %;
# docs/benchmarks/quality.md).
LOWEST_ODDS, HIGHEST_ODDS = 0.7, 4.0
STEPS = 40  # bisections of an interval: to a millionth of a millionth

Bins = Mapping[ConfidenceBin, BinCounts]


@dataclass(frozen=True)
class LearntLevel:
    """A language's level in whole percent, 0 to 1, and its evidence: how many suggestions were shown and kept.

    `usual` is the share of just these suggestions that a typical user would have kept.
    """

    level: float
    default: float
    shown: int
    kept: int
    usual: float


def levels_in_force(settings: Settings) -> dict[str, float]:
    """Return the learnt level of each language that has one; none if the settings, or a damaged file, allow none."""
    if not (settings.persist and settings.adaptive_confidence):
        return {}
    try:
        found = learnt_levels(cache_folder(settings.cache_folder) / STATISTICS, DEFAULTS.min_confidence)
    except (sqlite3.Error, OSError, ValueError):  # reported when the counts are written
        return {}
    return {language: each.level for language, each in found.items()}


def learnt_levels(path: Path, default: float) -> dict[str, LearntLevel]:
    """Return what is learnt from the statistics file, by language, most shown first; raises sqlite3.Error."""
    if not path.is_file() or path.stat().st_size == 0:
        return {}
    by_language = defaultdict[str, dict[ConfidenceBin, BinCounts]](dict)
    for each, counts in bins_since(path, date.today() - timedelta(DAYS - 1)).items():
        by_language[each.language][each] = counts
    found = [(language, learn(bins, default)) for language, bins in by_language.items()]
    return dict(sorted(found, key=lambda item: -item[1].shown))


def learn(bins: Bins, default: float) -> LearntLevel:
    """Return the level that the bins of one language lead to; without any suggestion shown it is the default."""
    shown, kept = (sum(counts[i] for counts in bins.values()) for i in (0, 1))
    if not shown or not 0 < default < 1:
        return LearntLevel(default, default, shown, kept, 0.0)
    usual = math.fsum(counts.shown * _probability(TYPICAL_HABIT, each) for each, counts in bins.items()) / shown

    def falling(above: float) -> float:
        """Return the derivative of the log posterior by `above`, the level's log odds less those of the default.

        Who has a habit below the typical one needs as much more confidence to keep a suggestion as often.
        """
        habit = TYPICAL_HABIT - SLOPE * above
        expected = (counts.shown * _probability(habit, each) for each, counts in bins.items())
        return math.fsum(expected) - kept - PRIOR_WEIGHT * SLOPE * above

    above = _root(falling, math.log(LOWEST_ODDS), math.log(HIGHEST_ODDS))
    return LearntLevel(round(_expit(_logit(default) + above), 2), default, shown, kept, usual)


def _probability(habit: float, each: ConfidenceBin) -> float:
    return _expit(habit + SLOPE * _logit(each.confidence))


def _root(decreasing: Callable[[float], float], low: float, high: float) -> float:
    """Return where a decreasing function is 0, or the bound of the interval that is nearest to it."""
    for _ in range(STEPS):
        middle = (low + high) / 2
        if decreasing(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def _expit(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
