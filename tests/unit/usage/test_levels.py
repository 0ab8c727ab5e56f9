"""The level that is learnt from counts: the default without any, bounded, and moved one way by each suggestion."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.usage.confidence_bins import BIN_PERCENT, BinCounts, ConfidenceBin, bin_of
from efim_ls.usage.levels import HIGHEST_ODDS, LOWEST_ODDS, SLOPE, TYPICAL_HABIT, learn

Bins = dict[ConfidenceBin, BinCounts]
BIN = ConfidenceBin("python", 40)

defaults = st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5])
bins = st.builds(ConfidenceBin, st.just("python"), st.sampled_from(range(0, 100, BIN_PERCENT)))
counts = st.tuples(st.integers(0, 3000), st.integers(0, 3000)).map(lambda pair: BinCounts(sum(pair), pair[0]))
evidence = st.dictionaries(bins, counts, max_size=8)


def with_one_more(found: Mapping[ConfidenceBin, BinCounts], each: ConfidenceBin, kept: int) -> Bins:
    shown, before = found.get(each, (0, 0))
    return {**found, each: BinCounts(shown + 1, before + kept)}


def usual(default: float, shown: int, percents: Iterable[int]) -> Bins:
    """What a typical user keeps, as far as whole numbers allow."""
    made: Bins = {}
    for percent in percents:
        each = ConfidenceBin("python", percent)
        logit = TYPICAL_HABIT + SLOPE * math.log(each.confidence / (1 - each.confidence))
        made[each] = BinCounts(shown, round(shown / (1 + math.exp(-logit))))
    return made


@given(defaults, st.dictionaries(bins, st.just(BinCounts(0, 0)), max_size=3))
def test_without_evidence_it_is_the_default(default: float, nothing: Bins) -> None:
    assert learn(nothing, default).level == default


@given(defaults, evidence)
def test_it_is_bounded(default: float, found: Bins) -> None:
    odds = default / (1 - default)
    lowest, highest = (odds * factor / (1 + odds * factor) for factor in (LOWEST_ODDS, HIGHEST_ODDS))
    assert round(lowest, 2) <= learn(found, default).level <= round(highest, 2)


@given(defaults, evidence, bins)
def test_a_suggestion_that_is_kept_never_raises_it_and_one_that_is_passed_by_never_lowers_it(
    default: float, found: Bins, each: ConfidenceBin
) -> None:
    before, kept, passed = (
        learn(some, default).level for some in (found, with_one_more(found, each, 1), with_one_more(found, each, 0))
    )
    if sum(shown for shown, _ in found.values()):
        assert kept <= before <= passed
    else:
        assert kept <= passed


@given(defaults, st.lists(st.tuples(bins, st.booleans()), max_size=30), st.randoms())
def test_the_order_of_what_happens_is_nothing_to_it(
    default: float, happened: list[tuple[ConfidenceBin, bool]], chance
) -> None:
    levels = list[object]()
    for _ in range(2):
        shown = Counter(each for each, _ in happened)
        kept = Counter(each for each, is_kept in happened if is_kept)
        levels.append(learn({each: BinCounts(count, kept[each]) for each, count in shown.items()}, default))
        chance.shuffle(happened)
    assert levels[0] == levels[1]


@given(st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5]), st.integers(100, 3000))
def test_who_keeps_what_is_usual_keeps_the_default(default: float, shown: int) -> None:
    found = usual(default, shown, range(20, 100, BIN_PERCENT))
    assert abs(learn(found, default).level - default) <= 0.01


@given(st.integers(100, 1000), st.integers(0, 30))
def test_a_raised_level_falls_again_once_the_sure_suggestions_that_are_left_are_kept_as_usual(
    shown: int, percent: int
) -> None:
    """The loop: what is below the raised level is never seen again."""
    raised = learn({BIN: BinCounts(shown, shown * percent // 1000)}, 0.2)
    above = [start for start in range(0, 100, BIN_PERCENT) if start >= raised.level * 100]
    later = usual(0.2, 5 * shown, above)
    assert raised.level > 0.2
    assert 0.2 <= learn({BIN: BinCounts(shown, shown * percent // 1000), **later}, 0.2).level < raised.level
    assert abs(learn(later, 0.2).level - 0.2) <= 0.01, "once the days before are forgotten"


def test_few_suggestions_move_it_little() -> None:
    assert learn({BIN: BinCounts(10, 0)}, 0.2).level <= 0.22
    assert learn({BIN: BinCounts(10, 10)}, 0.2).level >= 0.16
    assert learn({BIN: BinCounts(1000, 0)}, 0.2).level == 0.5
    assert learn({BIN: BinCounts(1000, 1000)}, 0.2).level == 0.15


@pytest.mark.parametrize("default", [0, 1])
def test_a_default_that_shows_all_or_nothing_stays(default: float) -> None:
    assert learn({BIN: BinCounts(100, 100)}, default).level == default


def test_the_evidence_comes_with_the_level() -> None:
    found = learn({BIN: BinCounts(300, 60), BIN._replace(percent=80): BinCounts(100, 20)}, 0.2)
    assert (found.default, found.shown, found.kept) == (0.2, 400, 80)
    assert 0.27 < found.usual < 0.37


@pytest.mark.parametrize(
    ("confidence", "percent"),
    [(0, 0), (0.04999, 0), (0.05, 5), (0.2, 20), (0.29, 25), (0.999, 95), (1, 95)],
)
def test_confidences_fall_into_bins(confidence: float, percent: int) -> None:
    assert bin_of("python", confidence) == ConfidenceBin("python", percent)


@pytest.mark.parametrize("confidence", [math.nan, -0.1, 1.1])
def test_what_is_no_probability_has_no_bin(confidence: float) -> None:
    assert bin_of("python", confidence) is None
