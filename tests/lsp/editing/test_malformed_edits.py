"""Edits that do not fit LSP's types: what can be meant is taken, what cannot silences its document."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from tests.lsp.wire import Editor, Page, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "# say more\nabc\ndef\n"
HUGE = [2**31, 2**32 - 1, 2**53 - 1, 10**30]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started() as editor:
        yield editor


def span(start: Any, end: Any) -> dict[str, Any]:
    """A range from line and character to line and character."""
    return {edge: {"line": at[0], "character": at[1]} for edge, at in (("start", start), ("end", end))}


def send(page: Page, *changes: object, **name: object) -> None:
    """Send changes as they are; nothing but the URI is said of the document unless it is given."""
    params = {"textDocument": {"uri": page.uri, **name}, "contentChanges": list(changes)}
    page.editor.tell("textDocument/didChange", params)


async def text_of(page: Page) -> str:
    """The server's whole text of a document that it is in step with."""
    place = {"textDocument": {"uri": page.uri}, "position": {"line": 10**6, "character": 0}}
    explained = await page.editor.ask("efim/explain", place)
    assert explained["reason"] is None
    return explained["prompt"]


async def reason_of(page: Page) -> str | None:
    return (await page.explain())["reason"]


@pytest.mark.parametrize("name", [{}, {"version": None}, {"version": "two"}, {"version": 1.5}, {"version": -7}])
async def test_a_version_of_any_kind_or_none_is_taken(editor: Editor, name: dict[str, object]):
    page = editor.open("‸" + TEXT)
    send(page, {"text": "NEW"}, **name)
    assert await text_of(page) == "NEW"
    editor.close_pages()


@pytest.mark.parametrize("length", [-1, None, "7", 2**40, {}])
async def test_the_length_of_a_range_is_not_looked_at(editor: Editor, length: object):
    page = editor.open("‸" + TEXT)
    send(page, {"range": span((1, 0), (2, 0)), "rangeLength": length, "text": "NEW"})
    assert await text_of(page) == "# say more\nNEWdef\n"
    editor.close_pages()


async def test_a_range_of_null_is_the_whole_text(editor: Editor):
    page = editor.open("‸" + TEXT)
    send(page, {"range": None, "rangeLength": None, "text": "NEW"}, version=2)
    assert await text_of(page) == "NEW"
    editor.close_pages()


@pytest.mark.parametrize("huge", HUGE)
async def test_numbers_beyond_the_limit_mean_the_end(editor: Editor, huge: int):
    page = editor.open("‸" + TEXT)
    send(page, {"range": span((1, 1), (1, huge)), "text": "X"}, version=2)
    assert await text_of(page) == "# say more\naX\ndef\n"
    send(page, {"range": span((1, 0), (huge, huge)), "text": "Y"}, version=3)
    assert await text_of(page) == "# say more\nY"
    editor.close_pages()


async def test_negative_and_whole_decimal_numbers_are_taken(editor: Editor):
    page = editor.open("‸" + TEXT)
    send(page, {"range": span((-1, 5), (1, -3)), "text": ""}, {"range": span((0.0, 1.0), (0, 3.0)), "text": ""})
    assert await text_of(page) == "a\ndef\n"
    editor.close_pages()


@pytest.mark.parametrize("huge", HUGE)
async def test_requests_may_ask_beyond_the_limit(editor: Editor, huge: int):
    page = editor.open("‸" + TEXT)
    position = {"line": huge, "character": huge}
    params = {"textDocument": {"uri": page.uri}, "position": position, "context": {"triggerKind": 2}}
    [item] = (await editor.ask("textDocument/inlineCompletion", params))["items"]
    assert item["insertText"] == "more" and item["range"]["start"] == {"line": 3, "character": 0}
    editor.close_pages()


@pytest.mark.parametrize(
    "item",
    [
        {"languageId": "python"},
        {"languageId": "python", "version": None},
        {"languageId": "python", "version": "x"},
        {"languageId": None, "version": 1},
        {"languageId": 5, "version": 1},
        {"version": 1},
    ],
)
async def test_a_document_opens_without_version_or_language(editor: Editor, item: dict[str, object]):
    page = Page(editor, "file:///opened.py", TEXT, len(TEXT))
    editor.tell("textDocument/didOpen", {"textDocument": {"uri": page.uri, "text": TEXT, **item}})
    assert await text_of(page) == TEXT
    assert await page.ghost() == "more"
    page.close()


NOT_UNDERSTOOD = [
    {"range": span((1, 0), (2, 0)), "text": None},
    {"range": span((1, 0), (2, 0)), "text": 5},
    {"range": span((1, 0), (2, 0))},
    {"range": span((1, None), (2, 0)), "text": "X"},
    {"range": span((1, True), (2, 0)), "text": "X"},
    {"range": span((1, 0.5), (2, 0)), "text": "X"},
    {"range": {"start": {"line": 1, "character": 0}}, "text": "X"},
    {"range": {}, "text": "X"},
    {"range": 0, "text": "X"},
    {"text": ["X"]},
    {},
    "X",
    None,
]


@pytest.mark.parametrize("change", NOT_UNDERSTOOD)
async def test_an_edit_that_cannot_be_meant_silences_its_document(editor: Editor, change: object):
    page, other = editor.open("‸" + TEXT), editor.open("‸" + TEXT)
    send(page, change, version=2)
    assert await page.ghost() is None
    explained = await page.explain()
    assert explained["reason"] == "out of step" and "save it" in explained["why"] and explained["prompt"] == ""
    status = await editor.ask("efim/status", {"textDocument": {"uri": page.uri}})
    assert (status["state"], status["message"]) == ("off", explained["why"])
    send(page, {"range": span((0, 0), (0, 0)), "text": "later"}, version=3)
    assert await reason_of(page) == "out of step"
    assert await other.ghost() == "more"
    editor.close_pages()


@pytest.mark.parametrize("changes", [None, {"text": "X"}, "X", 5])
async def test_changes_that_are_no_list_silence_their_document(editor: Editor, changes: object):
    page = editor.open("‸" + TEXT)
    editor.tell("textDocument/didChange", {"textDocument": {"uri": page.uri}, "contentChanges": changes})
    assert await reason_of(page) == "out of step"
    editor.close_pages()


async def silenced(editor: Editor) -> Page:
    page = editor.open("‸" + TEXT)
    send(page, {"text": None}, version=2)
    assert await reason_of(page) == "out of step"
    return page


async def test_of_several_changes_none_after_the_bad_one_is_applied(editor: Editor):
    page = editor.open("‸" + TEXT)
    good = {"range": span((0, 0), (0, 0)), "text": "good"}
    send(page, good, {"text": 5}, {"text": "after"}, version=2)
    assert await reason_of(page) == "out of step"
    send(page, {"text": "known"}, {"range": span((0, 5), (0, 5)), "text": " again"}, version=3)
    assert await text_of(page) == "known again"
    editor.close_pages()


async def test_a_whole_text_brings_a_document_back(editor: Editor):
    page = await silenced(editor)
    send(page, {"text": TEXT}, version=3)
    assert await text_of(page) == TEXT
    assert await page.ghost() == "more"
    editor.close_pages()


@pytest.mark.parametrize("saved", [TEXT, "# say less\n"])
async def test_a_saved_text_brings_a_document_back(editor: Editor, saved: str):
    page = await silenced(editor)
    editor.tell("textDocument/didSave", {"textDocument": {"uri": page.uri}})
    editor.tell("textDocument/didSave", {"textDocument": {"uri": page.uri}, "text": 5})
    assert await reason_of(page) == "out of step"
    editor.tell("textDocument/didSave", {"textDocument": {"uri": page.uri}, "text": saved})
    assert await text_of(page) == saved
    editor.close_pages()


async def test_opening_it_again_brings_a_document_back(editor: Editor):
    page = await silenced(editor)
    page.close()
    assert await text_of(editor.open("‸" + TEXT, page.uri)) == TEXT
    editor.close_pages()


@pytest.mark.parametrize("text", [None, 5, ["x"]])
async def test_a_document_opened_without_a_text_is_silent_until_it_has_one(editor: Editor, text: object):
    page = Page(editor, "file:///opened.py", "", 0)
    editor.tell("textDocument/didOpen", {"textDocument": {"uri": page.uri, "languageId": "python", "text": text}})
    assert await reason_of(page) == "out of step"
    send(page, {"text": TEXT})
    assert await text_of(page) == TEXT
    page.close()


async def test_the_user_is_told_once_and_the_log_for_each_document():
    async with started() as editor:
        pages = [await silenced(editor), await silenced(editor)]
        for page in pages:
            send(page, {"text": None}, version=3)
            assert await reason_of(page) == "out of step"
        [message] = editor.messages
        assert "cannot be understood" in message and "save it" in message
        logged = [m.message for m in editor.client.log_messages if "cannot be understood" in m.message]
        assert [page.uri in line for page, line in zip(pages, logged, strict=True)] == [True, True]


@pytest.mark.parametrize("method", ["didOpen", "didChange", "didSave", "didClose"])
@pytest.mark.parametrize("name", [None, 5, {}, {"uri": None}, {"uri": 5}])
async def test_a_message_about_no_document_is_logged_alone(editor: Editor, method: str, name: object):
    times = editor.stderr.count("ignoring a malformed notification")
    editor.tell(f"textDocument/{method}", {"textDocument": name, "text": "x", "contentChanges": []})
    await editor.logged("ignoring a malformed notification", times + 1)
    assert await editor.ask("efim/status")
