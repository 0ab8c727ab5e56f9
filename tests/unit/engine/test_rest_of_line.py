"""Where a text says what stands right of the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.engine.stops import EVIDENCE_LENGTH, evidence, find_rest, text_before_rest

texts = st.text("ab_ =(\n", max_size=12)
rests = st.text("ab_ =(", min_size=1, max_size=8).filter(str.strip)


@pytest.mark.parametrize(
    ("text", "rest", "found"),
    [
        ("a, b)", ", b)", 1),
        ("a, b) + c", ", b): # note", 1),
        ("a, c)", ", b)", None),
        ("width * n", " * heat", None),
        ("width * heat", " * height", 5),
        ("x = 1", "= 1   ", 2),
        ("x = 1", " =", 1),
        ("f(a)(a)", "(a)", 1),
        ("(a)", "(a)", 0),
        ("subtotal + total", "total)", 11),
        ("subtotal", "total)", None),
        ("old_total", "total)", 4),
        ("f.total", "total)", 2),
        ("total + total", "total", 0),
        ("", "x", None),
    ],
)
def test_the_first_place_that_says_the_rest_other_than_inside_a_word(text: str, rest: str, found: int | None) -> None:
    assert find_rest(text, rest) == found


def test_evidence_is_the_beginning_of_the_rest() -> None:
    assert [evidence(rest) for rest in ("x", " + height", "a  ", "(a, b)")] == ["x", " + h", "a", "(a, "]


@given(texts, rests)
def test_the_rest_is_said_where_it_is_met_and_nowhere_before(text: str, rest: str) -> None:
    def meets(at: int) -> bool:
        same = text[at : at + EVIDENCE_LENGTH].startswith(rest.rstrip()[:EVIDENCE_LENGTH])
        return same and not (at and text[at - 1].isalnum() and rest[0].isalnum())

    assert find_rest(text, rest) == next((at for at in range(len(text)) if meets(at)), None)


@given(texts, rests, texts)
def test_what_was_met_stays_met(text: str, rest: str, more: str) -> None:
    found = find_rest(text, rest)
    assert found is None or find_rest(text + more, rest) == found


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a + b", "a"), ("a + b\nc", "a"), ("a\nc + b", ""), ("a", ""), (" + b", "")],
)
def test_until_the_first_line_meets_the_rest(text: str, shown: str) -> None:
    assert text_before_rest(text, " + b") == shown
