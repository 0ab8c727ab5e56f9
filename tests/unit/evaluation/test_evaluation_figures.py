"""Metrics, intervals, the baseline without a model, and how figures are shown."""

from __future__ import annotations

import json
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from efim_lab.gate.evaluation import heuristic
from efim_lab.gate.evaluation.figures import markdown, metrics
from efim_lab.gate.evaluation.figures.intervals import Estimate, mean, proportion, ratio
from efim_lab.gate.evaluation.places.cursors import Context, CursorPlace
from efim_lab.gate.evaluation.report import (
    CompletionSample,
    HeldOutReport,
    arm_figures,
    as_json,
    exact_difference,
    samples,
    table,
)


@pytest.mark.parametrize(
    ("typed", "completion", "rest", "exact", "first_word"),
    [
        ("x = se", "lf.x  ", "lf.x", True, True),
        ("x = se", "lf.x", "lf.x ", True, True),
        ("x = se", " lf.x", "lf.x", False, False),
        ("x = se", "lf.y", "lf.x", False, True),
        ("x = se", "l", "lf", False, False),
        ("x = self", "(a)", ".b", False, True),
        ("x = self", "a", ".b", False, False),
        ("f(", "a, b)", "a)", False, True),
        ("f(", "((a))", "a)", False, True),
        ("f(", ")", "a)", False, False),
        ("f(a", "", "b)", False, False),
        ("f(", ")", "))", False, True),
        ("é", "é1", "é1)", False, True),
    ],
)
def test_exact_and_first_word(typed: str, completion: str, rest: str, exact: bool, first_word: bool) -> None:
    assert metrics.is_exact(completion, rest) is exact
    assert metrics.is_first_word_right(completion, rest, typed) is first_word


def test_edit_similarity() -> None:
    assert metrics.similarity("abc ", "abc") == 1.0
    assert metrics.similarity("", "abc") == 0.0
    assert metrics.similarity("abcd", "abxd") == pytest.approx(2 * 3 / 8)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(10, 100, 0.0552, 0.1744), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilsons_interval(hits: int, trials: int, low: float, high: float) -> None:
    found = proportion([True] * hits + [False] * (trials - hits))
    assert found.value == hits / trials
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_the_bootstrap_of_a_mean() -> None:
    found = mean([0.0, 1.0] * 500)
    assert found == mean([0.0, 1.0] * 500)
    half = 1.96 * sqrt(0.25 / 1000)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half), abs=0.004)
    assert mean([3.0] * 5) == Estimate(3.0, 3.0, 3.0)


def test_a_ratio_is_of_sums_that_are_resampled_together() -> None:
    assert ratio([1.0, 9.0], [1.0, 3.0]).value == 2.5
    found = ratio([2.0, 4.0, 8.0], [1.0, 2.0, 4.0])
    assert (found.low, found.high) == (2.0, 2.0)


HEAD = "import itertools\n\ndef count(items):\n    total = sum(items)\n    total = len(items)\n"


@pytest.mark.parametrize(
    ("head", "typed", "completion"),
    [
        (HEAD, "        total = ", "len(items)"),
        (HEAD, "total = s", "um(items)"),
        (HEAD, "    return ite", "ms"),
        (HEAD, "    x = itert", "ools"),
        (HEAD, "    return items", ""),
        (HEAD, "    return tems", ""),
        (HEAD, "    ", ""),
        (HEAD, "    (", ""),
        ("", "foobar = foo", "bar"),
        ("foobar fooo.", "foo", "bar fooo."),
        ("foobar fooo.", "x foo", "o"),
        ("foobar xfooo.", "x foo", "bar"),
        ("foobar", "  ", ""),
    ],
)
def test_the_baseline_goes_on_as_an_earlier_line_or_word(head: str, typed: str, completion: str) -> None:
    assert heuristic.complete(Context(head, typed, "tail total = 3", 1)) == completion


def place(typed: str, rest: str) -> CursorPlace:
    return CursorPlace(Context("", typed, "", 1), rest)


def test_an_arms_figures() -> None:
    places = [place("a", "b c"), place("a ", "b"), place("a ", "bcd")]
    found = arm_figures(places, ["b c", "b", "x"], [6.0, 2.0, 6.0])
    assert found.exact == proportion([True, True, False])
    assert (found.exact_inside, found.exact_elsewhere) == (proportion([True]), proportion([True, False]))
    assert found.first_word == proportion([True, True, False])
    assert found.similarity.value == pytest.approx(2 / 3)
    assert found.bits_per_character is not None and found.bits_per_character.value == 2.0
    assert (found.recomputed, found.recomputed_median) == (None, None)
    assert arm_figures(places[1:], ["", ""], None).exact_inside is None
    assert arm_figures(places[:1], [""], None).exact_elsewhere is None


def test_what_keys_cost_is_of_all_keys_of_all_lines() -> None:
    found = arm_figures([place("ab", "c"), place("", "d"), place("a", "b")], [""] * 3, None, [[1, 1], [], [7]])
    assert found.recomputed is not None and found.recomputed.value == 3.0
    assert found.recomputed_median == 1
    none = arm_figures([place("", "d")], [""], None, [[]])
    assert (none.recomputed, none.recomputed_median) == (None, None)


def test_the_paired_difference() -> None:
    places = [place("", "a"), place("", "b"), place("", "c")]
    assert exact_difference(places, ["a", "b", "c"], ["", "", ""]) == Estimate(1.0, 1.0, 1.0)
    assert exact_difference(places, ["a", "", ""], ["a", "", ""]) == Estimate(0.0, 0.0, 0.0)
    assert exact_difference(places, ["a", "", ""], ["a", "b", "c"]).value == pytest.approx(-2 / 3)


def a_report(model: str, **arms: str) -> HeldOutReport:
    places = [place("x = ", "a|b"), place("y", "`c`")]
    found = {
        arm: arm_figures(places, [completion] * 2, [8.0, 4.0], [[2, 3], [4]]) for arm, completion in arms.items()
    }
    difference = Estimate(-0.012, -0.03, 0.005)
    shown = tuple(CompletionSample(each.context.typed, each.rest, "") for each in places)
    return HeldOutReport(model, 1234, found, difference, shown)


def test_the_table_shows_every_figure_with_its_interval() -> None:
    shown = table(a_report("tiny", FIM="a|b"))
    title, _, header, _, row, _, difference = shown.split("\n")
    assert title.startswith("1,234 held-out lines")
    assert [cell.strip() for cell in row.split("|")[1:3]] == ["FIM", "50.0 [9.5, 90.5]"]
    assert row.count("[") == 6  # no cursor is inside a word
    assert [cell.strip() for cell in row.split("|")[-3:-1]] == ["3.00 [2.50, 4.00]", "3"]
    assert len(row) == len(header)
    assert difference == "EFIM less FIM, exact, paired: -1.2 [-3.0, +0.5] points"


def test_several_models_stand_side_by_side() -> None:
    shown = table(a_report("one", heuristic="", FIM="", EFIM=""), a_report("two", heuristic="", FIM=""))
    labels = [line.split("|")[1].strip() for line in shown.split("\n") if line.startswith("|")][2:]
    assert labels == ["heuristic", "FIM, one", "FIM, two", "EFIM, one"]
    differences = [line.split(", ")[:2] for line in shown.split("\n")[-3::2]]
    assert differences == [["EFIM less FIM", "one"], ["EFIM less FIM", "two"]]


def test_the_json_has_the_figures_but_not_the_samples() -> None:
    found = json.loads(json.dumps(as_json(a_report("tiny", FIM="a|b"))))
    assert found.keys() == {"model", "lines", "arms", "efim_minus_fim"}
    assert found["arms"]["FIM"]["exact"]["value"] == 0.5
    assert found["efim_minus_fim"] == {"value": -0.012, "low": -0.03, "high": 0.005}


def test_samples_are_a_table() -> None:
    tokens = MarkdownIt().enable("table").parse(samples(a_report("tiny")))
    spans = [[span.content for span in t.children or () if span.type == "code_inline"] for t in tokens]
    assert sum(spans, []) == ["x =", "a|b", "y", "`c`"]


@given(st.text("ab`|\\* _<&é", max_size=12))
def test_code_survives_markdown(text: str) -> None:
    shown = markdown.table([("a", "b"), (markdown.code(text), "c")])
    tokens = MarkdownIt().enable("table").parse(shown)
    spans = [span.content for token in tokens for span in token.children or () if span.type == "code_inline"]
    assert spans == ([text.strip()] if text.strip() else [])


@pytest.mark.parametrize(
    ("completion", "target", "same", "f1"),
    [
        ("x = f(y)", "x = f(y)  ", True, 1.0),
        ("if x:\n    y()\n\n    z()", "if x:\n  y()\n  z()\n", True, 1.0),
        ("if x: y()", "if x:\n y()", False, 1.0),
        ("f(a, b)", "f(a, c)", False, 2 / 3),
        ("f(a)", "f(a, a)", False, 1.0),
        ("return None", "return not True", False, 1.0),  # keywords alone
        ("f('a b', \"it's\", x)", "f(x)  # a comment", False, 1.0),
        ("f(rb'a\\'b', f\"{c}\")", "f()", False, 1.0),
        ("", "name", False, 0.0),
        ("é_1 = 1", "é_1 = 1e5", False, 1.0),
    ],
)
def test_code_is_compared_by_lines_and_by_names(completion: str, target: str, same: bool, f1: float) -> None:
    assert metrics.is_same_code(completion, target) is same
    assert metrics.identifier_f1(completion, target) == pytest.approx(f1)


CODE = st.text("ab_ (.1\n'#", max_size=20)


@given(CODE, CODE)
def test_the_f1_of_names_is_the_share_that_both_have(one: str, other: str) -> None:
    ours, theirs = metrics.identifiers(one), metrics.identifiers(other)
    score = metrics.identifier_f1(one, other)
    assert score == metrics.identifier_f1(other, one)
    assert (score == 1.0) is (ours == theirs) and (score == 0.0) is (ours != theirs and not ours & theirs)
    if ours & theirs:
        precision, recall = len(ours & theirs) / len(ours), len(ours & theirs) / len(theirs)
        assert score == pytest.approx(2 * precision * recall / (precision + recall))
