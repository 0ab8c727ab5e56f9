"""What clients report of the suggestions they got, with a model that says what it is told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import pytest_asyncio
from pygls.exceptions import JsonRpcException

from tests.lsp.wire import Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAYING = "# say more\n‸"
TYPING = "# type call(one)\n‸"
SUGGESTIONS = ("offered", "shown", "accepted", "partially_accepted", "characters_accepted", "characters_kept")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started() as editor:
        yield editor
    assert "ERROR" not in editor.stderr
    assert editor.messages == []


async def counts(editor: Editor) -> Counter[str]:
    """What became of suggestions so far; what is subtracted leaves what is more than 0."""
    stats = await editor.stats()
    return Counter({name: stats[name] for name in SUGGESTIONS})


async def accept(editor: Editor, item: dict[str, Any]) -> None:
    command = {"command": item["command"]["command"], "arguments": item["command"]["arguments"]}
    await editor.ask("workspace/executeCommand", command)


async def test_what_becomes_of_a_suggestion_is_counted_once(editor: Editor):
    before = await counts(editor)
    item = await editor.open(SAYING).item()
    assert item is not None
    for _ in range(2):
        editor.tell("textDocument/didShowCompletion", {"item": item})
        editor.tell("textDocument/didPartiallyAcceptCompletion", {"item": item, "acceptedLength": 3})
        await accept(editor, item)
    command = {"command": item["command"]["command"], "arguments": ["no such suggestion"]}
    await editor.ask("workspace/executeCommand", command)
    assert await counts(editor) - before == dict.fromkeys(SUGGESTIONS[:4], 1)


async def test_typing_a_suggestion_through_is_one_suggestion(editor: Editor):
    page = editor.open(TYPING)
    before = await counts(editor)
    for key in "call":
        item = await page.item()
        editor.tell("textDocument/didShowCompletion", {"item": item})
        page.type(key)
    item = await page.item()
    assert item is not None and item["insertText"] == "(one)"
    page.type("(one)")
    await accept(editor, item)
    page.close()
    counted = await counts(editor)
    assert counted - before == {
        "offered": 1, "shown": 1, "accepted": 1, "characters_accepted": 5, "characters_kept": 5,
    }  # fmt: skip


async def test_alternatives_each_have_a_command_and_are_one_suggestion(editor: Editor):
    page = editor.open("# say one\n# or two\n# or three\n‸")
    before = await counts(editor)
    answer = await page.ask(kind=1)[1]
    assert [item["insertText"] for item in answer["items"]] == ["one", "two", "three"]
    assert len({item["command"]["arguments"][0] for item in answer["items"]}) == 3
    for item in answer["items"]:
        assert item["range"] == {"start": page.position(page.cursor), "end": page.position(page.cursor)}
        editor.tell("textDocument/didShowCompletion", {"item": item})
    await accept(editor, answer["items"][2])
    assert await counts(editor) - before == {"offered": 1, "shown": 1, "accepted": 1}
    assert await page.ghost() == "one", "typing asks for one"


async def test_parts_that_are_accepted_are_followed_until_the_document_is_closed(editor: Editor):
    page = editor.open("# say née😀 two three\n‸")
    before = await counts(editor)
    item = await page.item()
    editor.tell("textDocument/didShowCompletion", {"item": item})
    page.type("née😀")
    editor.tell("textDocument/didPartiallyAcceptCompletion", {"item": item, "acceptedLength": 5})
    editor.tell("textDocument/didPartiallyAcceptCompletion", {"item": item, "acceptedLength": 9})
    page.type(" two")
    page.edit(page.cursor - 8, page.cursor - 6, "")
    page.close()
    counted = await counts(editor) - before
    assert counted == {
        "offered": 1, "shown": 1, "partially_accepted": 1, "characters_accepted": 8, "characters_kept": 6,
    }  # fmt: skip


async def test_rates_are_shares_of_what_was_shown_and_accepted():
    async with started() as editor:
        assert (await editor.stats())["acceptance_rate"] is None
        ignored, page = editor.open(SAYING), editor.open(SAYING)
        for shown in (await ignored.item(), item := await page.item()):
            editor.tell("textDocument/didShowCompletion", {"item": shown})
        assert item is not None
        page.type("more")
        await accept(editor, item)
        page.edit(page.cursor - 1, page.cursor, "")
        page.close()
        stats = await editor.stats()
        assert (stats["acceptance_rate"], stats["kept_rate"]) == (0.5, 0.75)


async def test_a_length_with_the_command_counts_a_part(editor: Editor):
    item = await editor.open(SAYING).item()
    before = await editor.stats()
    assert item is not None
    command = {"command": item["command"]["command"], "arguments": [*item["command"]["arguments"], 2]}
    await editor.ask("workspace/executeCommand", command)
    after = await editor.stats()
    assert after["partially_accepted"] == before["partially_accepted"] + 1
    assert after["accepted"] == before["accepted"]


@pytest.mark.parametrize("arguments", [None, [], [5], ["1", "2"], ["1", 2, 3]])
async def test_wrong_arguments_of_the_command_are_refused(editor: Editor, arguments):
    with pytest.raises(JsonRpcException) as caught:
        await editor.ask("workspace/executeCommand", {"command": "efim-ls.accept", "arguments": arguments})
    assert caught.value.code == -32602


async def test_malformed_reports_of_what_was_shown_are_only_logged(editor: Editor):
    editor.tell("textDocument/didShowCompletion", {"item": {}})
    editor.tell("textDocument/didPartiallyAcceptCompletion", None)
    assert await editor.open(SAYING).ghost()


async def test_work_ahead_of_need_is_counted(editor: Editor):
    before = (await editor.stats())["ahead"]
    await editor.open("one\n‸two").ghost()
    await editor.ask("efim/settled", {})
    after = (await editor.stats())["ahead"]
    assert after["tokens"] > before["tokens"]
    assert (before["wasted"], after["wasted"]) == (0, 0)
    assert after["ms"] > before["ms"]
