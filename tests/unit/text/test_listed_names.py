"""Names that an editor's other servers list: read from their lists, and used where and while they are true."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.filters.place import place_of
from efim_ls.request import Answer, ListedNames, Names, Request
from efim_ls.session.documents import MOST_EDITED, OpenDocument
from efim_ls.text.document import Change
from efim_ls.text.listed_names import read_names
from efim_ls.usage.counters import Counters

METHOD, FIELD, TEXT, SNIPPET = 2, 5, 1, 15
LISTED = ListedNames(2, "attribute", Names({"alpha": "value"}, is_open=False), "gopls")

# Labels as servers write them, and the names in them.
LABELS = {
    "push(…)": "push",  # rust-analyzer
    " push_back(const T &x)": "push_back",  # clangd
    "•size() const": "size",  # clangd, where a header would be added
    "Close": "Close",  # gopls
    "foo?": "foo",  # TypeScript's optional member
    "timeout=": "timeout",  # jedi's keyword
    "add(E e) : boolean": "add",  # Eclipse's
    "größe": "größe",
    "os.path": None,
    "std::vector": None,
    "a-b": None,
    "$scope": None,
    "[Symbol.iterator]": None,
    "": None,
    "2x": None,
}


@pytest.mark.parametrize(("label", "name"), LABELS.items())
def test_a_label_begins_with_the_name(label: str, name: str | None) -> None:
    listed = read_names([{"label": label, "kind": METHOD}], 0, "it", is_whole=True)
    assert (list(listed.names.kinds) if listed else None) == ([name] if name else None)


def test_a_list_with_words_of_the_text_may_lack_names_and_snippets_are_none() -> None:
    names = [{"label": "alpha", "kind": FIELD, "sortText": "2"}, {"label": "beta", "kind": METHOD, "sortText": "1"}]
    listed = read_names([*names, {"label": "forr", "kind": SNIPPET}], 0, "it", is_whole=True)
    assert listed and not listed.names.is_open and list(listed.names.kinds) == ["beta", "alpha"]
    listed = read_names([*names, {"label": "word", "kind": TEXT}], 0, "it", is_whole=True)
    assert listed and listed.names.is_open and "word" not in listed.names.kinds


def test_keywords_of_a_call_are_what_may_be_named_there() -> None:
    listed = read_names([{"label": "key="}, {"label": "print", "kind": 3}], 0, "it", is_whole=True)
    assert listed and listed.kind == "keyword" and list(listed.names.kinds) == ["key"]


ODD: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ITEMS = st.lists(
    ODD
    | st.fixed_dictionaries(
        {"label": ODD | st.text("ab=(\n:.$é", max_size=6)}, optional={"kind": ODD, "sortText": ODD}
    )
)


@given(ITEMS, st.booleans())
def test_whatever_a_server_lists_names_are_words_of_one_line(items: list[Any], is_whole: bool) -> None:
    listed = read_names(items, 0, "it", is_whole)
    assert listed is None or (listed.names.kinds and all(name.isidentifier() for name in listed.names.kinds))


def document(text: str = "x.\ny.\n") -> OpenDocument:
    return OpenDocument(Counters(), "file:///a.go", "go", text, 1)


def edit(of: OpenDocument, start: int, end: int, new: str) -> None:
    place = [*map(of.position, (start, end), ("utf-32", "utf-32"))]
    of.edit(Change(new, place[0], place[1], "utf-32"))
    of.version = (of.version or 0) + 1


def test_names_are_expected_in_the_word_that_begins_there() -> None:
    here = document("x.alp\ny.\n")
    here.list_names(LISTED, 1)
    for cursor, expected in ((1, False), (2, True), (4, True), (5, True), (6, False), (8, False)):
        assert (here.listed_at(cursor, 0) is not None) == expected, cursor
    moved = here.listed_at(4, 10)
    assert moved is not None and moved.start == 12, "a notebook's cell has text in front"


EDITS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.text("ab\n.", max_size=3)), max_size=8)


@given(EDITS, st.integers(0, 8), EDITS)
def test_names_are_used_as_long_as_nothing_in_front_of_them_changes(
    before: list[tuple[int, int, str]], asked: int, after: list[tuple[int, int, str]]
) -> None:
    """Warm equals cold: whatever is typed while a list is under way, and behind it once it has come."""
    here, leads = document(), dict[int | None, str]()
    for start, size, new in before:
        leads[here.version] = here.text[:2]
        edit(here, min(start, len(here.text)), min(start + size, len(here.text)), new)
    leads[here.version] = here.text[:2]
    asked_version = list(leads)[min(asked, len(leads) - 1)]
    here.list_names(LISTED, asked_version)
    known = here.listed_at(2, 0) is not None
    if known:
        assert here.text[:2] == leads[asked_version]
    for start, size, new in after:
        start = min(start, len(here.text))
        edit(here, start, min(start + size, len(here.text)), new)
        if start >= 2:
            assert (here.listed_at(2, 0) is not None) == known
        elif new or size:
            known = here.listed_at(2, 0) is not None
            assert not known or here.text[:2] == leads[asked_version]


def test_a_whole_list_asks_again_for_a_name_that_it_lacks_or_where_nothing_is_shown() -> None:
    here = document("x.a\n")
    here.cursor = 3
    for text, is_open, asks in (
        ("lpha()", False, False),
        ("ny()", False, True),
        ("ny()", True, False),
        ("()", False, False),
        ("", False, True),
        ("", True, False),
    ):
        here.note_answer(Request(here.uri, here.text, 3), Answer(text))
        listed = ListedNames(2, "attribute", Names({"alpha": "value"}, is_open), "gopls")
        assert here.list_names(listed, 1) == asks, (text, is_open)
    here.note_answer(Request(here.uri, here.text, 3), Answer(""))
    others = ListedNames(2, "attribute", Names({"beta": "value"}, False), "gopls")
    assert not here.list_names(others, 1), "no name begins as typed"
    here.note_answer(Request(here.uri, here.text, 3), Answer("ny()"))
    here.cursor = 1
    assert not here.list_names(LISTED, 1), "the cursor has moved on"


def test_names_of_another_version_are_none() -> None:
    here = document()
    here.list_names(LISTED, 7)
    assert here.listed_at(2, 0) is None, "no such version yet"
    for _ in range(MOST_EDITED + 1):
        edit(here, 5, 5, "a")
    here.list_names(LISTED, 1)
    assert here.listed_at(2, 0) is None, "too long ago"
    here.list_names(LISTED, here.version)
    assert here.listed_at(2, 0) is not None


def test_a_request_expects_listed_names_and_says_who_lists_them() -> None:
    request = Request("file:///a.go", "x.al", 4, language="go", listed=LISTED)
    expected = place_of(request).names_after("")
    assert expected and expected.stub == "al" and expected.source("alpha") == "listed by gopls"
    assert place_of(request).names_after("pha") is not None and place_of(request).names_after("pha.") is None
