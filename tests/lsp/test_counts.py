"""What clients report of the suggestions they got, with a model that says what it is told."""

from __future__ import annotations

import pytest
import pytest_asyncio
from pygls.exceptions import JsonRpcException
from wire import Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAYING = "# say more\n‸"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started() as editor:
        yield editor
    assert "ERROR" not in editor.stderr
    assert editor.messages == []


async def test_what_becomes_of_a_suggestion_is_counted_once(editor: Editor):
    async def counts() -> list[int]:
        stats = await editor.stats()
        return [stats[name] for name in ("shown", "accepted", "partially_accepted")]

    item = await editor.open(SAYING).item()
    assert item is not None
    before = await counts()
    command = {"command": item["command"]["command"], "arguments": item["command"]["arguments"]}
    for _ in range(2):
        editor.tell("textDocument/didShowCompletion", {"item": item})
        editor.tell("textDocument/didPartiallyAcceptCompletion", {"item": item, "acceptedLength": 3})
        await editor.ask("workspace/executeCommand", command)
    await editor.ask("workspace/executeCommand", {**command, "arguments": ["no such suggestion"]})
    assert [now - then for now, then in zip(await counts(), before, strict=True)] == [1, 1, 1]


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
