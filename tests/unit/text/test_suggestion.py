"""What is left of a suggestion, whoever follows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.text.document import Suggestion

suggested = st.text("ab \n(é😀", max_size=8)


@given(before=suggested, text=suggested, after=suggested, line_end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_at_every_character_its_end_is_left(before: str, text: str, after: str, line_end: str) -> None:
    made = Suggestion(len(before), text)
    for typed in range(len(text) + 1):
        stands = before + text[:typed].replace("\n", line_end)
        assert made.left(stands + after, len(stands)) == text[typed:]
        assert made.typed(stands + after, len(stands)) == typed


@pytest.mark.parametrize("before", ["x = g", "x = foz", "x = foo(bar)!", "x ="])
def test_nothing_is_left_before_its_place_behind_its_end_or_of_another_text(before: str) -> None:
    made = Suggestion(4, "foo(bar)")
    assert made.typed(before, len(before)) is None
    assert made.left(before, len(before)) == ""
