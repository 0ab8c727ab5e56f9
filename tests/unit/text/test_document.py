"""The text mirror against a reference that splits by regex and counts units one character at a time."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from efim_ls.text.document import Change, Document, Edit, Encoding, Position, narrowed
from efim_ls.text.lines import joined

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
PIECES = [*"ab \n\r\f\x0b\x1c\x85\u2028é€😀\ud83d\ude00", "\r\n", "\ufeff"]

texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
positions = st.tuples(st.integers(-1, 9), st.integers(-1, 14))
encodings = st.sampled_from(ENCODINGS)
UNITS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


@st.composite
def sequences(draw: st.DrawFn) -> list[Change]:
    """Edits of one client, which counts positions in one unit."""
    encoding = draw(encodings)
    parts = st.builds(Change, texts, positions, positions, st.just(encoding))
    return draw(st.lists(st.one_of(parts, parts, parts, st.builds(Change, texts)), max_size=6))


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
    """Edit an array of code units; only in UTF-16 can a text that is sent hold a part of a code point."""
    if change.start is None or change.end is None:
        return joined(change.text)
    codec, size = CODECS[change.encoding], UNITS[change.encoding]
    units = text.encode(codec, "surrogatepass")

    def place(line: int, character: int) -> int:
        if line >= len(lines := reference_lines(text)):
            return len(units)
        start, content = lines[max(line, 0)]
        before, own = (each.encode(codec, "surrogatepass") for each in (text[:start], content))
        at = len(before) + min(max(character, 0) * size, len(own))
        while change.encoding == "utf-8" and units[at : at + 1] and units[at] & 0xC0 == 0x80:
            at -= 1
        return at

    start, end = sorted(place(*each) for each in (change.start, change.end))
    edited = units[:start] + change.text.encode(codec, "surrogatepass") + units[end:]
    return edited.decode(codec, "surrogatepass")


def reference_read(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", re.sub("\r\n?", "\n", text.removeprefix("\ufeff")))


def assert_is_whole(page: Document) -> None:
    """What was edited step by step is what the whole text gives at once."""
    text = page.editor_text
    fresh = document(text) if joined(text) == text else page  # in other units than UTF-16's halves stay apart
    assert page.text == fresh.text == reference_read(text)
    line, start = -1, 0
    for offset in range(len(page.text) + 1):
        if offset == 0 or page.text[offset - 1] == "\n":
            line, start = line + 1, offset
        assert (page.line_of(offset), page.offset(line, 0, "utf-32")) == (line, start)
        for encoding in ENCODINGS:
            place = page.position(offset, encoding)
            assert place == fresh.position(offset, encoding) and page.offset(*place, encoding) == offset


@given(texts, sequences())
@example("x = '😀'", [Change("\ude01", (0, 6), (0, 7))])
@example("x = ''", [Change("\ud83d", (0, 5), (0, 5)), Change("\ude00", (0, 6), (0, 6))])
@example("\ufeffa\rb", [Change("\n", (1, 0), (1, 0)), Change("", (0, 0), (0, 1)), Change("\ufeff", (0, 0), (0, 0))])
def test_after_all_edits_the_text_is_the_editors(text: str, edits: list[Change]) -> None:
    page = document(text)
    text = page.editor_text
    for edit in edits:
        text = reference_apply(text, edit)
        page.apply(edit)
        assert page.editor_text == text
        assert_is_whole(page)


@given(texts, sequences())
def test_a_change_returns_the_edit_that_it_made(text: str, edits: list[Change]) -> None:
    page = document(text)
    for change in edits:
        before, edit = page.text, page.apply(change)
        after = before[: edit.at] + page.text[edit.at : edit.end] + before[edit.at + len(edit.removed) :]
        assert page.text == after


@given(texts, positions, encodings)
def test_offset_equals_the_reference(text: str, position: Position, encoding: Encoding) -> None:
    page = document(text)
    at = reference_offset(page.editor_text, *position, encoding)
    assert page.offset(*position, encoding) == len(reference_read(page.editor_text[:at]))


@given(texts, st.integers(-3, 60), encodings)
def test_position_and_back_is_the_same_offset(text: str, offset: int, encoding: Encoding) -> None:
    page = document(text)
    assert page.offset(*page.position(offset, encoding), encoding) == min(max(offset, 0), len(page.text))


@given(texts, texts, st.data())
def test_splice_replaces_code_points_of_what_is_read(text: str, new: str, data: st.DataObject) -> None:
    page = document(text)
    text = page.text
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    new = re.sub("[\r\ufeff\ud800-\udfff]", "", new)
    page.splice(start, end, new)
    assert page.text == text[:start] + new + text[end:]
    assert_is_whole(page)


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
    assert page.editor_text == f"abcX{terminator}def" and page.line_end == terminator


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
