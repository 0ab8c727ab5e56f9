"""Line lookups by offset against a reference that lists every line of the text."""

from __future__ import annotations

import re
from itertools import islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from efim_ls.text.lines import enclosing_line, line_start, line_starts_after, lines_upwards

texts = st.lists(st.sampled_from([*"ab \n\n\r\f\x0b\x1c\x85\u2028é😀\ud83d", "\r\n"]), max_size=20).map("".join)
unhurried = settings(max_examples=80)


def reference_lines(text: str) -> list[tuple[int, int, int]]:
    """Every line's start, the end of its content, and where the next line starts."""
    parts, lines, start = re.split(r"(\r\n|\r|\n)", text), [], 0
    for content, terminator in zip(parts[::2], [*parts[1::2], ""], strict=True):
        end = start + len(content)
        lines.append((start, end, end + len(terminator)))
        start = end + len(terminator)
    return lines


def reference_line(text: str, offset: int) -> tuple[int, int, int]:
    """The last line that starts at or before the offset; between CR and LF the rest of it is empty."""
    start, end, below = max(line for line in reference_lines(text) if line[0] <= offset)
    return start, max(end, offset), below


@unhurried
@given(texts)
@example("\na\rb")
def test_every_offset_is_in_the_line_that_the_reference_lists(text: str) -> None:
    for offset in range(len(text) + 1):
        assert enclosing_line(text, offset) == reference_line(text, offset)
        assert line_start(text, offset) == reference_line(text, offset)[0]


@unhurried
@given(texts)
@example("\na\rb")
def test_going_upwards_meets_every_line_start_once(text: str) -> None:
    for offset in range(len(text) + 1):
        starts = [start for start, _, _ in reference_lines(text) if start <= offset]
        assert list(islice(lines_upwards(text, offset), len(text) + 2)) == starts[::-1]


@unhurried
@given(texts, st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 4))
@example("\r\n", 0, 1, 0, 1)
def test_line_starts_after_a_piece_are_found_from_the_last_one_on(
    text: str, high: int, low: int, begin: int, size: int
) -> None:
    piece = text[begin : begin + size] or "a"
    low, high = sorted((min(low, len(text)), min(high, len(text))))
    starts = [start for start, _, _ in reference_lines(text) if low + len(piece) <= start <= high]
    after = [start for start in starts if text.startswith(piece, start - len(piece))]
    assert list(line_starts_after(text, piece, low, high)) == after[::-1]


@pytest.mark.parametrize("character", ["\f", "\x0b", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_lf_cr_and_crlf_end_lines(character: str) -> None:
    text = f"a{character}b\nc"
    assert enclosing_line(text, 3) == (0, 3, 4)
    assert list(lines_upwards(text, len(text))) == [4, 0]


def test_between_cr_and_lf_is_still_the_line_before() -> None:
    assert enclosing_line("ab\r\ncd", 3) == (0, 3, 4)
    assert enclosing_line("ab\r\r\ncd", 4) == (3, 4, 5)
