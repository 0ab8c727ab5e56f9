"""What was edited last: texts before and after, merged while they are typed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from efim_ls.text.document import MOST_EDITED, MOST_EDITS, PAUSE, EditHistory, PastEdit

A, B = "file:///a.py", "file:///b.py"
SMALL = st.text("abc\n", max_size=4)


def applied(text: str, edit: PastEdit) -> str:
    assert text[edit.at : edit.at + len(edit.removed)] == edit.removed
    return text[: edit.at] + edit.added + text[edit.at + len(edit.removed) :]


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, list[PastEdit]]:
    """A text, and edits of it one after the other, with the seconds between them."""
    text = first = draw(st.text("abc\n", max_size=12))
    edits, now = list[PastEdit](), 0.0
    for _ in range(draw(st.integers(1, 8))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        now += draw(st.sampled_from([0.1, 2 * PAUSE]))
        edits.append(PastEdit(A, start, text[start:end], draw(SMALL), now))
        text = applied(text, edits[-1])
    return first, edits


@given(edited())
def test_what_is_remembered_leads_from_the_first_text_to_the_last(case: tuple[str, list[PastEdit]]):
    text, edits = case
    history, expected = EditHistory(), text
    for edit in edits:
        history.follow(edit)
        expected = applied(expected, edit)
    for edit in history.recent():
        text = applied(text, edit)
    assert text == expected
    assert all(edit.removed != edit.added for edit in history.recent())


def typed(history: EditHistory, at: int, text: str, uri: str = A, when: float = 0.0) -> None:
    for i, character in enumerate(text):
        history.follow(PastEdit(uri, at + i, "", character, when + 0.1 * i))


def test_a_name_that_is_typed_over_another_is_one_edit():
    history = EditHistory()
    history.follow(PastEdit(A, 7, "count", "t", 0.0))
    typed(history, 8, "otak")
    history.follow(PastEdit(A, 11, "k", "", 1.0))
    typed(history, 11, "l", when=1.1)
    assert [(each.at, each.removed, each.added) for each in history.recent()] == [(7, "count", "total")]


def test_backspaces_are_one_edit():
    history = EditHistory()
    for i, character in enumerate("abc"):
        history.follow(PastEdit(A, 9 - i, character, "", 0.1 * i))
    assert [(each.at, each.removed, each.added) for each in history.recent()] == [(7, "cba", "")]


def test_a_pause_another_place_and_another_document_begin_another_edit():
    history = EditHistory()
    typed(history, 0, "ab")
    typed(history, 2, "c", when=2 * PAUSE)
    typed(history, 9, "d", when=2 * PAUSE)
    typed(history, 9, "e", uri=B, when=2 * PAUSE)
    assert [each.added for each in history.recent()] == ["ab", "c", "d", "e"]
    assert [each.added for each in history.recent(2)] == ["d", "e"]
    assert list(history.recent(0)) == []


def test_what_is_taken_back_at_once_is_no_edit():
    history = EditHistory()
    typed(history, 3, "ab")
    history.follow(PastEdit(A, 3, "ab", "", 0.5))
    assert list(history.recent()) == []


def test_a_document_that_is_closed_is_forgotten():
    history = EditHistory()
    typed(history, 0, "a")
    typed(history, 0, "b", uri=B)
    history.forget(A)
    assert [each.uri for each in history.recent()] == [B]


def test_only_the_last_edits_are_kept_and_always_the_very_last():
    history = EditHistory()
    for i in range(MOST_EDITS + 5):
        history.follow(PastEdit(A, 10 * i, "", "x", 0.0))
    assert [each.at for each in history.recent()] == [10 * i for i in range(5, MOST_EDITS + 5)]
    history.follow(PastEdit(B, 0, "", "y" * (MOST_EDITED + 1), 0.0))
    assert [each.uri for each in history.recent()] == [B]
