"""Where a window starts and how far its tail reaches, with a counter that is easy to follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.completion.planning.window import (
    FURTHEST_MOVE,
    MOST_CHARACTERS,
    OPENING,
    STARVED,
    Budget,
    Pieces,
    Window,
)
from efim_ls.completion.planning.window import _found_again as found_window
from efim_ls.text.lines import line_start, starts_line
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.pieces import fragments
from model_runtime.prompt.tokenizer import Tokenizer
from tests.models import CODE
from tests.tiny_tokenizers import write

BUDGET = Budget(head=50, tail=10)
TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")

unhurried = settings(max_examples=80)
lines = st.sampled_from(
    ["\n", "\r\n", "def f():\n", "    x = 1\n", "y\r", "\f\n", "é😀\n", "\n\n", "a, b, " * 50 + "\n", "-" * 90 + "\n"]
)
texts = st.lists(lines, max_size=40).map("".join)


def four(text: str) -> list[tuple[str, int]]:
    """A token for every four characters begun."""
    return [(piece, -(-len(piece) // 4)) for piece in fragments(text)]


def one(text: str) -> list[tuple[str, int]]:
    """A token for every fragment: as few tokens for their length as texts can have."""
    return [(piece, 1) for piece in fragments(text)]


def numbered(count: int) -> str:
    return "".join(f"value_{i:02} = {i}\n" for i in range(count))


WINDOW = Window(BUDGET, four)


def test_typed_gets_a_quarter_of_the_heads_budget() -> None:
    assert Budget(head=1536, tail=384).typed == 384


def test_a_text_counts_what_its_pieces_count() -> None:
    assert WINDOW.count("") == 0
    assert WINDOW.count("abcd\nefgh\n") == 4


def test_a_text_that_fits_is_shown_from_its_start() -> None:
    text = numbered(10)
    assert WINDOW.start(text, len(text), None) == 0


@unhurried
@given(text=texts, place=st.integers(0, 1000), last=st.integers(0, 1000))
def test_a_head_keeps_to_its_budget_and_starts_at_a_line(text: str, place: int, last: int) -> None:
    anchor = len(text) * place // 1000
    anchor = text.rfind("\n", 0, anchor) + 1
    before = text.rfind("\n", 0, anchor * last // 1000) + 1
    start = WINDOW.start(text, anchor, (before, text[before:anchor]))
    assert 0 <= start <= anchor
    assert WINDOW.count(text[start:anchor]) <= BUDGET.head
    in_long_line = "a, b, a, b, " in text[max(0, start - 12) : start + 12]
    assert start == 0 or text[start - 1] in "\r\n" or in_long_line


def test_a_head_too_large_drops_to_sixty_percent_of_its_budget() -> None:
    text = numbered(40)
    start = WINDOW.start(text, len(text), None)
    line = len("value_00 = 0\n")
    assert text.startswith("value_", start)
    assert BUDGET.head * 0.6 - line < WINDOW.count(text[start:]) <= BUDGET.head * 0.6


def test_a_dropped_window_prefers_to_start_before_a_top_level_definition() -> None:
    text = numbered(30) + "\ndef first():\n" + "    value = 1\n" * 6
    start = WINDOW.start(text, len(text), None)
    assert text.startswith("def first", start)


def test_a_definition_far_below_the_windows_start_is_not_preferred() -> None:
    text = numbered(40) + "\ndef late():\n" + "    value = 1\n"
    start = WINDOW.start(text, len(text), None)
    assert text.startswith("value_", start)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("above, line, preferred", [("⏎", "top", True), ("⏎", "    in", False), ("", "top", False)])
def test_a_definition_is_not_indented_and_has_a_blank_line_above(
    above: str, line: str, preferred: bool, line_end: str
) -> None:
    value, above = f"    value = 1{line_end}", above.replace("⏎", line_end)
    text = value * 40 + above + line + line_end + value * 12
    start = Window(Budget(head=100, tail=10), four).start(text, len(text), None)
    assert (start == text.index(line + line_end)) == preferred


@pytest.mark.parametrize("line", [f"#{'-' * 78}\n", f"{' ' * 40}}},\n"], ids=["rules", "deep indentation"])
def test_a_window_over_lines_of_few_tokens_starts_at_a_line(line: str) -> None:
    text = line * 400
    start = Window(Budget(), TOKENIZER.pieces).start(text, len(text), None)
    assert start % len(line) == 0


@unhurried
@given(text=texts, first=st.integers(0, 1000), second=st.integers(0, 1000))
def test_a_start_is_kept_while_the_head_fits_and_is_not_starved(text: str, first: int, second: int) -> None:
    before, anchor = sorted((len(text) * first // 1000, len(text) * second // 1000))
    before = line_start(text, before)
    tokens = WINDOW.count(text[before:anchor])
    if tokens <= BUDGET.head and (before == 0 or tokens * STARVED >= BUDGET.head):
        assert WINDOW.start(text, anchor, (before, text[before:anchor])) == before


def test_a_head_that_a_jump_upwards_starves_is_given_the_text_above_it() -> None:
    text = numbered(400)
    far = text.index("value_300 ")
    start = WINDOW.start(text, far, None)
    near = text.index("\n", start) + 1
    assert start > 0
    assert WINDOW.start(text, near, (start, text[start:far])) < start


@pytest.mark.parametrize(("lines", "kept"), [(8, True), (7, False)])
def test_r2_a_head_of_an_eighth_of_its_budget_is_not_starved(lines: int, kept: bool) -> None:
    window, text = Window(Budget(head=64, tail=10), four), "".join(f"{i:03}\n" for i in range(100))
    start, anchor = 4 * 50, 4 * (50 + lines)
    assert STARVED == 8 and window.count(text[start:anchor]) == lines
    assert (window.start(text, anchor, (start, text[start:])) == start) is kept


def test_r2_a_head_that_begins_with_the_text_is_never_starved() -> None:
    text = "#!\n\ndef first():\n    return 1\n"
    window = Window(Budget(), four)
    assert window.count(text) * STARVED < Budget().head and text.index("def") <= len(text) // 3
    assert window.start(text, len(text), None) == 0


def test_a_head_of_blank_lines_only_does_not_shrink_to_nothing() -> None:
    """Some tokenizers' fragments begin with the previous line's end, from where no line starts before the anchor."""

    def after_line_ends(text: str) -> list[tuple[str, int]]:
        line = text.rstrip("\n")
        return [(line, -(-len(line) // 4)), (text[len(line) :], 1)]

    text = "x" * 100 + "\n\n"
    start = Window(Budget(head=5, tail=5), after_line_ends).start(text, len(text), None)
    assert text[start:] == "\n\n"


def test_a_start_is_found_again_after_edits_above_it() -> None:
    text, new = numbered(40), "# new\n"
    start = WINDOW.start(text, len(text), None)
    last = (start, text[start:])
    assert WINDOW.start(new + text, len(new + text), last) == start + len(new)
    assert WINDOW.start(text[14:], len(text) - 14, last) == start - 14


def test_only_the_opening_of_a_window_is_looked_for() -> None:
    window = Window(Budget(head=400, tail=10), four)
    text = numbered(150)
    start = window.start(text, len(text), None)
    last = (start, text[start:])
    changed = "# new\n" + text[: start + OPENING] + "changed\n" + text[start + OPENING :]
    assert window.start(changed, len(changed), last) == start + len("# new\n")


def test_a_start_below_the_anchor_is_given_up() -> None:
    text = numbered(80)
    start = WINDOW.start(text, len(text), None)
    anchor = text.index("value_03")
    assert WINDOW.start(text, anchor, (start, text[start:])) == 0


def test_a_start_is_found_again_only_at_a_line_start() -> None:
    text = numbered(40) + "{}\n}\n" + numbered(5)
    at = text.index("\n}\n") + 1
    new = "# new\n"
    start = WINDOW.start(new + text, len(new + text), (at, "}\n"))
    assert (new + text)[start - 1] == "\n"


@unhurried
@given(text=texts, place=st.integers(0, 1000), pieces=st.sampled_from([four, one]))
def test_a_tail_holds_as_many_whole_fragments_as_its_budget_allows(text: str, place: int, pieces: Pieces) -> None:
    at = len(text) * place // 1000
    window = Window(BUDGET, pieces)
    tail = window.tail(text, at)
    assert text.startswith(tail, at)
    assert window.count(tail) <= BUDGET.tail
    rest = list(fragments(text[at : at + BUDGET.tail * MOST_CHARACTERS]))
    whole = ["".join(rest[:n]) for n in range(len(rest) + 1)]
    assert tail == max((t for t in whole if window.count(t) <= BUDGET.tail), key=len)


def test_the_beginning_at_a_place_is_as_many_whole_fragments_as_are_asked_for() -> None:
    text = "value_0\n" * 9
    assert WINDOW.beginning(text, 8, 7) == "value_0\n" * 3
    assert WINDOW.beginning(text, 8, 8) == "value_0\n" * 4
    assert WINDOW.beginning(text, 8, 100) == text[8:]
    assert WINDOW.beginning("", 0, 5) == WINDOW.beginning("x = 1", 0, 0) == ""


def test_a_tail_begins_where_it_is_told_to() -> None:
    assert WINDOW.tail("abc\n", 4) == ""
    assert WINDOW.tail("abc\ndef\n", 4) == "def\n"
    assert WINDOW.tail("abc\ndef\n", 5) == "ef\n"


def test_pieces_never_see_more_than_eight_characters_a_token() -> None:
    seen: list[int] = []

    def measured(text: str) -> list[tuple[str, int]]:
        seen.append(len(text))
        return four(text)

    window, text = Window(BUDGET, measured), "word " * 100_000
    window.start(text, len(text), (0, text))
    window.tail(text, 7)
    assert max(seen) <= BUDGET.head * MOST_CHARACTERS


class Searched(str):
    """A text that counts the characters in which something was searched for, and the matches that were examined."""

    characters = matches = 0

    def find(self, *sought: Any) -> int:
        return self._counted(super().find, *sought)

    def rfind(self, *sought: Any) -> int:
        return self._counted(super().rfind, *sought)

    def _counted(self, search: Callable[..., int], what: str, low: int = 0, high: int | None = None) -> int:
        self.characters += (len(self) if high is None else min(high, len(self))) - low
        self.matches += 1
        return search(what, low, len(self) if high is None else high)


@pytest.mark.parametrize("repeated", ["a, b, ", "0", "👩\u200d👧", "def f():\n", "\n", "\r"])
def test_a_text_that_repeats_itself_is_searched_in_bounded_work(
    repeated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list[int]()
    monkeypatch.setattr(
        "efim_ls.completion.planning.window.starts_line", lambda text, at: looked.append(at) or starts_line(text, at)
    )
    text = Searched(repeated * (4_000_000 // len(repeated)))
    for head in (text[1:400], text[1:2], "x" + text[:400]):
        WINDOW.start(text, len(text), (2_000_000, head))
    assert len(looked) <= 3 * 100, "matches, and fragments of the last few lines"
    assert text.matches <= 3 * 8
    assert text.characters <= text.matches * (FURTHEST_MOVE + OPENING + 2)


@unhurried
@given(text=texts, at=st.integers(0, 60))
def test_two_characters_tell_whether_a_line_starts(text: str, at: int) -> None:
    assert starts_line(text, at) == (line_start(text, at) == at)


@unhurried
@given(above=texts, text=texts, pasted=texts)
def test_a_window_that_moved_is_found_where_the_nearest_such_line_is(above: str, text: str, pasted: str) -> None:
    whole, moved = above + "\n" + text, above + pasted + "\n" + text
    at, head = len(above) + 1, text[:OPENING]
    found = found_window(moved, at, head)
    candidates = [s for s in range(len(moved) + 1) if moved.startswith(head, s) and line_start(moved, s) == s]
    expected = min(candidates, key=lambda s: abs(s - at), default=None) if head else None
    assert found_window(whole, at, head) == (at if at != 0 or head else None)
    assert found == (at if at in candidates else expected)


@pytest.mark.parametrize("kind", ["qwen", "starcoder", "llama"])
@pytest.mark.parametrize("head", [40, 90])
def test_windows_begin_at_line_starts_whatever_the_fragments_begin_with(kind: str, head: int, tmp_path: Path) -> None:
    pieces = Tokenizer(write(tmp_path, kind)).pieces
    window = Window(Budget(head, 8), pieces)
    anchors = [at for at in range(400, len(CODE)) if CODE[at - 1] == "\n" and not CODE[at].isspace()]
    starts = [window.start(CODE, anchor, None) for anchor in anchors]
    assert all(CODE[start - 1] == "\n" for start in starts)
    assert all(0 < sum(count for _, count in pieces(CODE[s:a])) <= head for s, a in zip(starts, anchors, strict=True))
