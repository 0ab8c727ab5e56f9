"""Several suggestions for one place: those of another first line, whole ones first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.answerers.cleaning import distinct, several
from efim_ls.completion.filters.place import Place
from efim_ls.completion.filters.syntax.readable import breaks_off, whole_statements

AT_LOGGER = Place("    logger.", "", "", "")
IN_FUNCTION = Place("    ", "", "def total(values):\n", "", "python")
IN_LIST = Place("    ", "", "names = [\n", "]\n", "python")
IN_DOCSTRING = Place("    ", "", 'def total(values):\n    """Add.\n\n', "", "python")
EMPTY = 'info("no data in %s yet", self.path)'
OVER_AND_OVER = "\n    ".join([EMPTY, *[f"logger.{EMPTY}"] * 3])
CODE = st.lists(
    st.sampled_from(
        ["return sum(", "values)", "x = 1", "x =", "if x:", "    ", "\n    ", "\n", "[", "]", '"""', "a, ", "@b", "é"]
    ),
    max_size=8,
).map("".join)
PLACES = st.sampled_from([IN_FUNCTION, IN_LIST, IN_DOCSTRING, AT_LOGGER, Place("x", ")", "", "", "python")])


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["start()", "stop()"], ["start()", "stop()"]),
        (["", "stop()", "stop()"], ["stop()"]),
        (["start(a, b)", "start(a,b)\n", "start(a, c)"], ["start(a, b)", "start(a, c)"]),
        ([EMPTY, f"{EMPTY}\n    logger.stop()"], [EMPTY]),
        (["\n\n    a()\n    b()", "\n\n    c()", "\n\n    a()"], ["\n\n    a()\n    b()", "\n\n    c()"]),
        (["x = 1", OVER_AND_OVER], ["x = 1"]),
        ([OVER_AND_OVER], [OVER_AND_OVER]),
    ],
    ids=[
        "others are kept",
        "empty and equal ones are not",
        "blanks make no difference",
        "nor does a line below the first",
        "blank lines are not the first",
        "an alternative that says a line over and over",
        "which the first suggestion may",
    ],
)  # fmt: skip
def test_suggestions_with_the_first_line_of_another_are_left_out(texts: list[str], kept: list[str]) -> None:
    assert distinct(texts, AT_LOGGER) == kept


@pytest.mark.parametrize(
    ("texts", "said", "chosen"),
    [
        (["return [", "return 1", "pass"], "return [\n    1,", ["return [", "return 1"]),
        (["return 1", "return [", "pass"], "return 1", ["return 1", "pass"]),
        (["return", "return 1"], "return", ["return", "return 1"]),
        (["if", "if x:", "return"], "if unknown:", ["if x:", "return"]),
        (["import", "from"], "import unknown", ["import", "from"]),
    ],
    ids=[
        "the first that breaks off as it was said stays",
        "others that break off come last",
        "none does",
        "the first comes last where filters cut its line",
        "all do",
    ],
)
def test_whole_suggestions_come_before_those_that_break_off(texts: list[str], said: str, chosen: list[str]) -> None:
    assert several(texts, IN_FUNCTION, 2, said) == chosen


@given(st.lists(CODE, max_size=6), PLACES, st.integers(1, 4))
def test_at_most_so_many_of_the_suggestions_are_chosen_each_with_a_first_line_of_its_own(
    texts: list[str], place: Place, count: int
) -> None:
    chosen = several(texts, place, count, texts[0] if texts else "")
    assert len(chosen) <= count and {*chosen} <= {*texts} - {""}
    assert distinct(chosen, place) == chosen
    if count >= len({*texts}):
        assert sorted(chosen) == sorted(distinct(texts, place))
    whole = [not breaks_off(each, place) for each in chosen[1:]]
    assert whole == sorted(whole, reverse=True)


@pytest.mark.parametrize(
    ("place", "text", "whole"),
    [
        (IN_FUNCTION, "x = 1\n    return sum(", "x = 1"),
        (IN_FUNCTION, "x = 1\n    return x", "x = 1\n    return x"),
        (IN_FUNCTION, "x = [\n        1,\n        2,", "x = ["),
        (IN_FUNCTION, "x = [\n        1,\n    ]\n    y =", "x = [\n        1,\n    ]"),
        (IN_FUNCTION, "if values:\n        x = 1\n    else:", "if values:\n        x = 1"),
        (IN_FUNCTION, "if values:\n        return sum(\n            values", "if values:"),
        (IN_FUNCTION, "time =", "time ="),
        (IN_FUNCTION, 'x = 1\n    y = """a\n    b', "x = 1"),
        (IN_FUNCTION, "\n\n    x = (", "\n\n    x = ("),
        (IN_LIST, '"one",\n    "two",\n    call(', '"one",\n    "two",'),
        (IN_LIST, '"one",\n]\n\n\ndef', '"one",\n]'),
        (IN_DOCSTRING, "All of (them, or\n    none", "All of (them, or\n    none"),
        (IN_DOCSTRING, 'None.\n    """\n    return sum(', 'None.\n    """'),
        (Place("call(", ")", "", "", "python"), "one(\n    two)", "one(\n    two)"),
        (Place("x = ", " + y", "", "", "python"), "sum(", "sum("),
        (AT_LOGGER, "info(\n        1,", "info(\n        1,"),
    ],
)  # fmt: skip
def test_a_suggestion_ends_where_a_statement_ends(place: Place, text: str, whole: str) -> None:
    assert whole_statements(text, place) == whole


@given(CODE, PLACES)
def test_what_is_whole_is_lines_of_the_suggestion_and_stays(text: str, place: Place) -> None:
    whole = whole_statements(text, place)
    assert text.startswith(whole) and text[len(whole) :].lstrip(" \t")[:1] in ("", "\n")
    assert bool(whole.strip()) == bool(text.strip())
    assert whole_statements(whole, place) == whole
    assert whole.strip().count("\n") == 0 or place.rest or not breaks_off(whole, place)
