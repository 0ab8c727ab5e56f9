"""Cleaned suggestions: golden cases drawn inside documents, and what holds for any text."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.answerers.cleaning import FILTERS, clean
from efim_ls.completion.filters.place import Place
from efim_ls.completion.filters.rest_of_line import before_code
from model_runtime.engine.stops import PUNCTUATION, evidence, is_closers

GOLDEN = Path(__file__).parents[2] / "golden" / "filters"


@dataclass(frozen=True)
class Case:
    name: str
    document: str
    expect: str
    emptied_by: str | None = None
    max_lines: int = 12
    language: str = ""
    others: tuple[str, ...] = ()

    def drawn(self) -> tuple[str, Place]:
        """The suggestion between the marks and the place around them."""
        until, text, after = re.split("[├┤]", self.document)
        line_start = max(until.rfind("\n"), until.rfind("\r")) + 1
        rest, *below = re.split(r"\r\n|\r|\n", after, maxsplit=1)
        around = (until[line_start:], rest, until[:line_start], "".join(below))
        return text, Place(*around, self.language, tuple(self.others))


def golden_cases() -> dict[str, Case]:
    return {
        f"{path.stem}: {raw['name']}": Case(**raw)
        for path in sorted(GOLDEN.rglob("*.toml"))
        for raw in tomllib.loads(path.read_text("utf-8"))["case"]
    }


CASES = golden_cases()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_drawn_suggestion_is_cleaned(case: Case) -> None:
    text, place = case.drawn()
    cleaned, emptied_by = clean(text, place, case.max_lines)
    assert cleaned == case.expect
    assert case.emptied_by is None or emptied_by == case.emptied_by


def test_every_filter_has_golden_cases() -> None:
    files = {path.stem for path in GOLDEN.glob("*.toml")}
    assert files == {each.__name__ for each in FILTERS} | {"before_code", "line_cap"}


@pytest.mark.parametrize("rest", ["", "  ", ")", '"):', "})];", "'", ">", ", ", "`"])
def test_closers_and_punctuation_may_stay_out_of_the_prompt(rest: str) -> None:
    assert is_closers(rest)


@pytest.mark.parametrize("rest", ["x", ") + 1", "# note", "(", "=", "."])
def test_other_text_right_of_the_cursor_is_code(rest: str) -> None:
    assert not is_closers(rest)


def test_nothing_is_emptied_by_no_filter() -> None:
    place = Place("", "", "", "")
    assert clean("", place, 5) == clean(" \n\t", place, 5) == ("", None)


code = st.lists(
    st.sampled_from(
        [*"ab(){}[]<>\"'`:;,=\\# \t\n", "  ", "\n    ", "x = 1\n", "end\n", "def f():\n", "try:\n", "é # noqa"]
    ),
    max_size=40,
).map("".join)
texts = st.one_of(code, code, st.text(st.characters(), max_size=40))
line_parts = texts.map(lambda text: re.sub(r"[\r\n]", "", text))
languages = st.sampled_from(["", "go", "javascript", "python", "rust", "typescript"])
places = st.builds(Place, line_parts, line_parts, texts, texts, languages)
places_before_code = places.filter(lambda place: not is_closers(place.rest))
closers = st.text(" \t" + PUNCTUATION, max_size=6)
places_before_closers = st.builds(Place, line_parts, closers, texts, texts, languages)
looping = st.tuples(texts, texts, st.integers(1, 30)).map(lambda parts: parts[0] + parts[1] * parts[2])
suggestions = st.one_of(texts, looping)
caps = st.integers(1, 8)


@given(suggestions, places_before_closers, caps)
def test_cleaning_twice_is_cleaning_once(text: str, place: Place, max_lines: int) -> None:
    cleaned, _ = clean(text, place, max_lines)
    assert clean(cleaned, place, max_lines)[0] == cleaned


@given(suggestions, places_before_code, texts, caps)
def test_cleaning_what_says_on_into_the_code_is_cleaning_once(
    text: str, place: Place, more: str, max_lines: int
) -> None:
    cleaned, _ = clean(text + place.rest + more, place, max_lines)
    assert clean(cleaned + place.rest, place, max_lines)[0] == cleaned or "\t" in text


@given(line_parts, places_before_code, texts)
def test_what_is_shown_before_code_led_into_it(text: str, place: Place, more: str) -> None:
    shown = before_code(text + place.rest + more, place)
    if not (text[-1:].isalnum() and place.rest[0].isalnum()):
        assert text.startswith(shown)
    assert not shown or (text + place.rest + more).startswith(shown + evidence(place.rest))
    assert before_code(shown + place.rest, place) == shown
    assert before_code(shown, place) == ""


@given(suggestions, places, caps)
def test_cleaning_only_takes_away(text: str, place: Place, max_lines: int) -> None:
    cleaned, emptied_by = clean(text, place, max_lines)
    remaining = iter(re.sub(r"\s", "", text))
    assert all(character in remaining for character in re.sub(r"\s", "", cleaned))
    assert "\t" in text or "\n" in text or len(cleaned) <= len(text), "only levels get wider"
    assert cleaned.count("\n") < max_lines
    assert bool(cleaned) == bool(cleaned.strip())
    assert emptied_by is None or not cleaned


@given(suggestions, places)
def test_filters_accept_any_text(text: str, place: Place) -> None:
    for each in FILTERS:
        assert isinstance(each(text, place), str)


@given(suggestions, places)
def test_a_filter_is_left_out_only_where_it_would_change_nothing(text: str, place: Place) -> None:
    for each, may_change in FILTERS.items():
        assert may_change(text, place) or each(text, place) == text, each.__name__
