"""Clients that send whole texts: the document is opened, or edited by what differs."""

from __future__ import annotations

from typing import NoReturn

from hypothesis import given
from hypothesis import strategies as st

from efim_ls.session.documents import OpenDocument
from efim_ls.session.session import Session
from efim_ls.text.document import Change
from efim_ls.usage.counters import Counters
from tests.waiting import HANG

URI = "file:///a.py"


def session() -> Session:
    def load(*_: object) -> NoReturn:
        raise AssertionError("nothing needs the model")

    return Session(load)


async def test_a_text_that_is_not_open_is_opened_and_a_later_one_is_an_edit_of_it():
    mine = session()
    document = mine.sync(URI, "python", "one two six")
    assert mine.documents.get(URI) is document
    assert mine.sync(URI, "python", "one six") is document
    assert document.text == "one six"
    [edit] = mine.documents.history.recent()
    assert (edit.at, edit.removed, edit.added) == (4, "two ", "")
    assert mine.sync(URI, "python", "one six") is document and len(mine.documents.history.recent()) == 1
    assert mine.engine.close(HANG)


async def test_a_document_in_another_language_is_opened_anew():
    mine = session()
    document = mine.sync(URI, "python", "x")
    other = mine.sync(URI, "go", "y")
    assert other is not document and (other.language, other.text) == ("go", "y")
    assert mine.engine.close(HANG)


async def test_a_header_that_is_found_to_be_another_languages_stays_open():
    mine = session()
    document = mine.sync("file:///a.h", "c", "class A {};\n")
    assert mine.sync("file:///a.h", "c", "class A {\n};\n") is document and document.language == "cpp"
    assert mine.sync("file:///a.h", "", "int a;\n") is document
    assert mine.sync("file:///a.h", "cpp", "int a;\n") is not document
    assert mine.engine.close(HANG)


@given(st.lists(st.text("ab\r\n𝄞", max_size=8), min_size=1))
async def test_whatever_is_sent_the_text_is_the_last_one(texts: list[str]):
    mine = session()
    for text in texts:
        assert mine.sync(URI, "python", text).editor_text == text
    assert mine.engine.close(HANG)


def test_out_of_step_only_a_whole_text_is_a_change() -> None:
    document, at = OpenDocument(Counters(), URI, "python", "ab"), (0, 1)
    assert document.edit(Change("x", at, at)) and document.text == "axb"
    document.out_of_step = True
    assert document.edit(Change("y", at, at)) is None and document.text == "axb"
    assert document.edit(Change("new")) and document.text == "new" and not document.out_of_step
    assert document.edit(Change("y", at, at)) and document.text == "nyew"
