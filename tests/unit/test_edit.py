"""What is left of an inserted text: against a list in which each character knows whether it was inserted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from efim_ls.text.document import Edit, narrowed
from efim_ls.usage.suggestions import RetainedRange

ROOM = 12  # characters of a text that is edited: small, so that edits meet what is followed
TEXTS = st.text("ab\n", max_size=ROOM)


@st.composite
def edits(draw: st.DrawFn, size: int) -> Edit:
    at = draw(st.integers(0, size))
    return Edit(at, draw(st.integers(0, size - at)), draw(st.integers(0, 3)))


@given(st.data())
def test_what_is_left_is_what_no_edit_removed(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, ROOM))
    end = data.draw(st.integers(start, ROOM))
    inserted = [start <= place < end for place in range(ROOM)]
    kept = RetainedRange(start, end)
    for _ in range(data.draw(st.integers(0, 8))):
        edit = data.draw(edits(len(inserted)))
        inserted[edit.at : edit.at + edit.removed] = [False] * edit.added
        kept.follow(edit)
        assert kept.characters == sum(inserted)


@given(TEXTS, TEXTS, st.integers(0, 5))
def test_a_narrowed_edit_does_the_same_and_touches_nothing_in_common(old: str, new: str, at: int) -> None:
    edit = narrowed(at, old, new)
    first, last = edit.at - at, edit.at - at + edit.removed
    put = new[first : first + edit.added]
    assert old[:first] + put + old[last:] == new
    assert min(edit.removed, edit.added) == 0 or (old[first] != put[0] and old[last - 1] != put[-1])


def test_what_stands_before_stays_where_a_whole_text_is_sent() -> None:
    assert narrowed(0, "one two six", "one six") == Edit(4, 4, 0)
    assert narrowed(0, "same", "same") == Edit(4, 0, 0)
    assert narrowed(0, "", "new") == Edit(0, 0, 3)
