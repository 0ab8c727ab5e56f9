"""Where completions are measured, and the data the places come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation import held_out_data
from efim_lab.gate.evaluation.places.cursors import (
    AFTER,
    BEFORE,
    LONGEST_LINE,
    Context,
    CursorPlace,
    choose_places,
    context_at,
)

LINES = st.one_of(st.text(" \tab_(=é", max_size=12), st.just("x = 1" * 30), st.just("z" * (LONGEST_LINE + 1)))
TEXTS = st.lists(LINES, min_size=1, max_size=60).map("\n".join)


@given(TEXTS)
def test_a_place_is_a_window_of_its_document(text: str) -> None:
    written = [line for line in text.split("\n") if line.strip() and len(line) <= LONGEST_LINE]
    places = choose_places([CodeDocument("a.py", text)], 1000)
    assert sorted(place.context.typed + place.rest for place in places) == sorted(written)
    for place in places:
        context = place.context
        before, line = context.head + context.typed, context.typed + place.rest
        window = before + place.rest + "\n" + context.tail
        at = [i for i in range(len(text)) if (text + "\n").startswith(window, i) and (i == 0 or text[i - 1] == "\n")]
        assert at
        assert place.rest.strip()
        assert len(context.typed) >= len(line) - len(line.lstrip())
        assert context.head == "" or context.head.endswith("\n")
        assert len(before) <= BEFORE and len(context.tail) <= AFTER
        assert any(i == 0 or len(text[text.rfind("\n", 0, i - 1) + 1 : i] + before) > BEFORE for i in at)
        assert len(context.tail) == AFTER or any(
            text.endswith(window) or text + "\n" == text[:i] + window for i in at
        )


def test_the_window_reaches_as_far_as_it_may() -> None:
    text = "".join(f"number_{i:03} = {i:03}\n" for i in range(400))  # 17 characters a line
    places = {
        text.index(p.context.typed + p.rest): p.context for p in choose_places([CodeDocument("a.py", text)], 400)
    }
    assert len(places) == 400
    for anchor, context in places.items():
        cursor = anchor + len(context.typed)
        assert cursor < BEFORE or BEFORE - 17 < len(context.head + context.typed) <= BEFORE
        assert context.tail == text[anchor + 17 :][:AFTER]


def test_fewer_places_are_the_first_of_more_in_any_run() -> None:
    documents = [
        CodeDocument("a.py", "import os\n\n\nclass A:\n    b = os.name\n"),
        CodeDocument("b.py", "print(1, 2)\n"),
    ]
    places = choose_places(documents, 100)
    assert len(places) == 4
    assert choose_places(documents, 2) == places[:2]
    assert [(place.context.typed, place.rest, place.context.increment) for place in places] == GOLDEN


GOLDEN = [("    b = ", "os.name", 131), ("import ", "os", 104), ("clas", "s A:", 123), ("print", "(1, 2)", 150)]


@pytest.mark.parametrize(
    ("typed", "rest", "inside"),
    [("fo", "o()", True), ("foo", "()", False), ("", "foo", False), ("x = ", "y", False), ("_", "1", True)],
)
def test_a_cursor_is_inside_a_word_or_not(typed: str, rest: str, inside: bool) -> None:
    assert CursorPlace(Context("", typed, "", 1), rest).inside_word is inside


def test_a_context_hides_what_is_between_cursor_and_end() -> None:
    assert context_at("a\nbc\nd", 3, 5, 7) == Context("a\n", "b", "d", 7)
    assert context_at("a\n", 2, 2, 1) == Context("a\n", "", "", 1)


def test_a_folder_is_read_without_what_is_hidden_or_no_text(tmp_path: Path) -> None:
    for name, content in (("b.py", b"b = 1\r\n"), ("a/c.py", b"c = 1\n"), (".venv/x.py", b"x"), ("bad.py", b"\xff")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert held_out_data.read_held_out(tmp_path) == [
        CodeDocument("a/c.py", "c = 1\n"),
        CodeDocument("b.py", "b = 1\n"),
    ]


def test_a_corpus_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "heldout.jsonl"
    path.write_text(json.dumps({"path": "a.py", "text": "a"}) + "\n")
    assert held_out_data.read_held_out(path) == [CodeDocument("a.py", "a")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read .*No such file.*: make it with `python -m efim_lab train corpus`, or check the path"),
        ("", "has no code: name a heldout.jsonl or a folder"),
        ("{", "is damaged .*: make it with `python -m efim_lab train corpus`"),
        ('{"path": "a"}\n', "is damaged"),
        ('{"path": "a", "text": 1}\n', "is damaged"),
        ("\0\udcff", "is damaged"),
    ],
)
def test_data_that_cannot_be_measured_on_is_refused(content: str | None, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "heldout.jsonl"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(WorkError, match=complaint):
        held_out_data.read_held_out(path)


def test_a_folder_without_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="has no code"):
        held_out_data.read_held_out(tmp_path)
