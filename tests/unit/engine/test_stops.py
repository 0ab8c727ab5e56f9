"""Where suggestions end: a table to read, and that an end once found stays where it is."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.engine.stops import StopRule, evidence, find_rest, indent_width, stop_rule, text_before_rest

GOLDEN = Path(__file__).parents[2] / "golden" / "stops"


@dataclass(frozen=True)
class Case:
    """`generated` carries the mark where the suggestion ends, and none where it may go on."""

    name: str
    before: str
    generated: str
    rest: str = ""
    explicit: bool = False
    max_lines: int = 12

    def rule(self) -> StopRule:
        return stop_rule(self.before, self.rest, self.explicit, self.max_lines)

    def drawn(self) -> tuple[str, int | None]:
        text, mark, below = self.generated.partition("┤")
        return text + below, len(text) if mark else None


CASES = {
    f"{path.stem}: {raw['name']}": Case(**raw)
    for path in sorted(GOLDEN.glob("*.toml"))
    for raw in tomllib.loads(path.read_text("utf-8"))["case"]
}

unhurried = settings(max_examples=80)
texts = st.lists(
    st.sampled_from([*"ab):,({[}]\t\n\n", "  ", "    ", "\n\n", "\n    ", "\n        x"]), max_size=25
).map("".join)
caps = st.integers(1, 6)
befores = st.text("a :({", max_size=5)
rules = st.builds(StopRule, st.booleans(), st.integers(0, 9), caps)
rules_before_code = st.builds(stop_rule, befores, st.sampled_from(["a", "ab(", "b, a)", "= a"]), st.booleans(), caps)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_suggestion_ends_where_it_is_drawn(case: Case) -> None:
    text, end = case.drawn()
    assert case.rule().cut(text) == end


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_suggestion_that_comes_bit_by_bit_ends_where_it_is_drawn(case: Case) -> None:
    text, end = case.drawn()
    cuts = (case.rule().cut(text[:n]) for n in range(len(text) + 1))
    assert next((cut for cut in cuts if cut is not None), None) == end


@unhurried
@given(rules, texts)
def test_what_is_kept_is_a_beginning_of_whole_lines(rule: StopRule, text: str) -> None:
    cut = rule.cut(text)
    if cut is not None:
        assert text[cut] == "\n"
        assert text[:cut].count("\n") < rule.max_lines
        assert rule.multiline or "\n" not in text[:cut]


@unhurried
@given(st.one_of(rules, rules_before_code), texts, texts)
@example(StopRule(True, 4, 9), "x\n    y\n\n", "    z\n")
def test_an_end_once_found_stays_where_it_is(rule: StopRule, text: str, more: str) -> None:
    cut = rule.cut(text)
    if cut is not None:
        assert rule.cut(text + more) == cut


@unhurried
@given(rules, texts)
def test_an_end_is_found_as_soon_as_the_next_line_shows_it(rule: StopRule, text: str) -> None:
    cut = rule.cut(text)
    if cut:
        assert rule.cut(text[:cut]) is None


@unhurried
@given(rules_before_code, texts)
def test_before_code_a_line_ends_at_its_end_or_where_it_has_met_the_code(rule: StopRule, text: str) -> None:
    line, newline, _ = text.partition("\n")
    met = find_rest(line, rule.rest)
    end = len(line) if newline else None
    assert rule.cut(text) == (end if met is None else met + len(evidence(rule.rest)))
    assert text_before_rest(text[: rule.cut(text)], rule.rest) == text_before_rest(text, rule.rest)


@unhurried
@given(rules, texts)
def test_one_line_rules_end_with_the_line(rule: StopRule, text: str) -> None:
    single = StopRule(False, rule.indent, rule.max_lines)
    assert single.cut(text) == (text.index("\n") if "\n" in text else None)


@pytest.mark.parametrize(
    "line, columns", [("", 0), ("x", 0), ("  x y", 2), ("\tx", 4), ("  \tx", 4), ("\t x", 5), ("    ", 4)]
)
def test_indentation_is_measured_in_columns_with_tabs_of_four(line: str, columns: int) -> None:
    assert indent_width(line) == columns


@given(st.text("ab \n\t)"), st.sampled_from("\x00\x07\x1a\x1b\x7f\x9b"), st.text("ab\n"), st.booleans())
def test_no_suggestion_holds_a_control_character(before: str, control: str, after: str, multiline: bool) -> None:
    rule = StopRule(multiline, 0, 12)
    end = rule.cut(before + control + after)
    assert end is not None and end <= len(before)
    assert rule.cut(before) in (None, end)
