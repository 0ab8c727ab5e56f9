"""The text mirror against a reference that splits by regex and counts units one character at a time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.text.document import Change, Document, Edit, Encoding, Position, narrowed

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
PIECES = [*"ab \n\r\f\x0b\x1c\x85\u2028é€😀\ud83d\ude00", "\r\n"]

texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
positions = st.tuples(st.integers(-1, 9), st.integers(-1, 14))
encodings = st.sampled_from(ENCODINGS)
changes = st.one_of(
    st.builds(Change, texts, positions, positions, encodings),
    st.builds(Change, texts),
)


def document(text: str) -> Document:
    return Document("file:///a.py", "python", text, 1)


def reference_lines(text: str) -> list[tuple[int, str]]:
    """Every line's start and content without its terminator."""
    parts, lines, start = re.split(r"(\r\n|\r|\n)", text), [], 0
    for content, terminator in zip(parts[::2], [*parts[1::2], ""], strict=True):
        lines.append((start, content))
        start += len(content) + len(terminator)
    return lines


def reference_units(character: str, encoding: Encoding) -> int:
    if encoding == "utf-8":
        return len(character.encode("utf-8", "surrogatepass"))
    return 2 if encoding == "utf-16" and ord(character) > 0xFFFF else 1


def reference_offset(text: str, line: int, character: int, encoding: Encoding) -> int:
    lines = reference_lines(text)
    if line >= len(lines):
        return len(text)
    offset, content = lines[max(line, 0)]
    for each in content:
        character -= reference_units(each, encoding)
        if character < 0:
            break
        offset += 1
    return offset


def reference_apply(text: str, change: Change) -> str:
    if change.start is None or change.end is None:
        return change.text
    start, end = sorted(reference_offset(text, *place, change.encoding) for place in (change.start, change.end))
    return text[:start] + change.text + text[end:]


def is_line_start(text: str, p: int) -> bool:
    return p == 0 or text[p - 1] == "\n" or (text[p - 1] == "\r" and text[p : p + 1] != "\n")


def assert_index_is_whole(page: Document) -> None:
    """The index says what a scan of the whole text says, at every offset."""
    line, start = -1, 0
    for offset in range(len(page.text) + 1):
        if is_line_start(page.text, offset):
            line, start = line + 1, offset
        assert (page.line_of(offset), page.offset(line, 0, "utf-32")) == (line, start)


@given(texts, st.lists(changes, max_size=6))
def test_every_edit_sequence_gives_the_reference_text_and_index(text: str, edits: list[Change]) -> None:
    page = document(text)
    for edit in edits:
        text = reference_apply(text, edit)
        page.apply(edit)
        assert page.text == text
        assert_index_is_whole(page)


@given(texts, st.lists(changes, max_size=6))
def test_a_change_returns_the_edit_that_it_made(text: str, edits: list[Change]) -> None:
    page = document(text)
    for change in edits:
        before, edit = page.text, page.apply(change)
        after = before[: edit.at] + page.text[edit.at : edit.end] + before[edit.at + len(edit.removed) :]
        assert page.text == after


@given(texts, positions, encodings)
def test_offset_equals_the_reference(text: str, position: Position, encoding: Encoding) -> None:
    assert document(text).offset(*position, encoding) == reference_offset(text, *position, encoding)


@given(texts, st.integers(-3, 60), encodings)
def test_position_and_back_is_the_same_offset(text: str, offset: int, encoding: Encoding) -> None:
    page = document(text)
    back = page.offset(*page.position(offset, encoding), encoding)
    start, content = reference_lines(text)[page.line_of(offset)]
    assert back == min(max(offset, 0), start + len(content))


def test_a_position_inside_a_terminator_is_the_lines_end() -> None:
    assert document("ab\r\nc").position(3, "utf-16") == (0, 2)


@given(texts, st.integers(0, 60))
def test_the_line_of_an_offset_equals_the_reference(text: str, offset: int) -> None:
    offset = min(offset, len(text))
    starts = [start for start, _ in reference_lines(text)]
    assert document(text).line_of(offset) == max(i for i, start in enumerate(starts) if start <= offset)


@given(texts, texts, st.data())
def test_splice_replaces_code_points(text: str, new: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    page = document(text)
    page.splice(start, end, new)
    assert page.text == text[:start] + new + text[end:]
    assert_index_is_whole(page)


@pytest.mark.parametrize("start, end", [(-1, 0), (2, 1), (0, 4)])
def test_splice_refuses_a_range_outside_the_text(start: int, end: int) -> None:
    page = document("abc")
    with pytest.raises(ValueError, match="is outside a text"):
        page.splice(start, end, "x")
    assert page.text == "abc"


@pytest.mark.parametrize("character", ["\f", "\x0b", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_lf_cr_and_crlf_end_lines(character: str) -> None:
    page = document(f"a{character}b\nline2\n")
    page.apply(Change("X", (1, 0), (1, 0)))
    assert page.text == f"a{character}b\nXline2\n"


def test_a_character_past_the_last_line_without_newline_is_its_end() -> None:
    page = document("abc\ndef")
    page.apply(Change("X", (1, 99), (1, 99)))
    assert page.text == "abc\ndefX"


@pytest.mark.parametrize("terminator", ["\n", "\r", "\r\n"])
def test_a_character_past_the_end_stops_before_the_terminator(terminator: str) -> None:
    page = document(f"abc{terminator}def")
    page.apply(Change("X", (0, 99), (0, 99)))
    assert page.text == f"abcX{terminator}def"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_line_after_a_final_newline_is_the_end_of_the_document(encoding: Encoding) -> None:
    page = document("a\n😀é\n")
    assert page.offset(2, 0, encoding) == page.offset(3, 7, encoding) == 5
    assert page.position(5, encoding) == (2, 0)


def test_a_column_inside_a_character_is_that_characters_start() -> None:
    page = document("a😀é")
    assert [page.offset(0, unit, "utf-16") for unit in range(5)] == [0, 1, 1, 2, 3]
    assert [page.offset(0, unit, "utf-8") for unit in range(8)] == [0, 1, 1, 1, 1, 2, 2, 3]
    assert [page.offset(0, unit, "utf-32") for unit in range(4)] == [0, 1, 2, 3]


def test_a_range_whose_start_is_after_its_end_is_swapped() -> None:
    page = document("one\ntwo\n")
    page.apply(Change("-", (1, 1), (0, 2), "utf-8"))
    assert page.text == "on-wo\n"


def test_crlf_joins_and_splits_at_the_seams() -> None:
    page = document("a\rb")
    page.splice(2, 2, "\n")
    assert page.text == "a\r\nb"
    assert_index_is_whole(page)
    page.splice(2, 2, "x")
    assert page.text == "a\rx\nb"
    assert_index_is_whole(page)
    page.splice(2, 3, "")
    assert_index_is_whole(page)


def test_a_snapshot_does_not_change_with_the_document() -> None:
    page = document("old")
    snapshot = page.text
    page.apply(Change("new"))
    assert (snapshot, page.text) == ("old", "new")
    assert (page.uri, page.language, page.version) == ("file:///a.py", "python", 1)


SMALL_TEXTS = st.text("ab\n", max_size=12)  # so that two texts often share their ends


@given(SMALL_TEXTS, SMALL_TEXTS, st.integers(0, 5))
def test_a_narrowed_edit_leaves_out_what_the_texts_share(old: str, new: str, at: int) -> None:
    edit = narrowed(at, old, new)
    first, last = edit.at - at, edit.at - at + len(edit.removed)
    assert (old[first:last], old[:first] + edit.added + old[last:]) == (edit.removed, new)
    shares_none = old[first : first + 1] != edit.added[:1] and old[:last][-1:] != edit.added[-1:]
    assert not (edit.removed and edit.added) or shares_none


def test_narrowing_a_whole_text_finds_the_edit() -> None:
    assert narrowed(0, "one two six", "one six") == Edit(4, "two ", "")
    assert narrowed(0, "same", "same") == Edit(4, "", "")
    assert narrowed(0, "", "new") == Edit(0, "", "new")
