"""Inline completions while an item of the list of words is selected: what follows it, as if it stood there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.lsp.wire import ALONE, GHOST_TEXT, Editor, Page, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

ABOVE = "import os\n\n\ndef f(a):\n    "


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["utf-16", "utf-8"])
async def editor(request: pytest.FixtureRequest) -> AsyncIterator[Editor]:
    async with started(ALONE, {**GHOST_TEXT, "general": {"positionEncodings": [request.param]}}) as editor:
        yield editor


async def items(page: Page, kind: int, begun: int, text: str) -> list[dict[str, Any]]:
    edges = {"start": page.position(page.cursor - begun), "end": page.position(page.cursor)}
    context = {"triggerKind": kind, "selectedCompletionInfo": {"range": edges, "text": text}}
    answer = await page.editor.ask("textDocument/inlineCompletion", {**page.place, "context": context})
    found = answer["items"] if answer else []
    assert all(each["range"] == edges and each["insertText"].startswith(text) for each in found)
    return found


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize(
    ("line", "begun", "item"),
    [
        ("return os.path.", 0, "basename"),
        ("ret", 3, "retry"),
        ("ret", 3, "return"),
        ("x = '😀' + os.pa", 2, "path"),
        ("return os.path.jn", 2, "join"),  # a fuzzy match: it does not begin with what is typed
        ("", 0, "for each in a:\r\n        "),
    ],
)
async def test_what_is_suggested_is_what_follows_the_item(
    editor: Editor, kind: int, line: str, begun: int, item: str
):
    page = editor.open(f"{ABOVE}{line}‸\n")
    found = await items(page, kind, begun, item)
    page.close()
    plain = editor.open(f"{ABOVE}{line[: len(line) - begun]}{item}‸\n")
    answer = await plain.ask(kind)[1]
    assert [each["insertText"] for each in found] == [
        item + each["insertText"] for each in (answer["items"] if answer else [])
    ]
    plain.close()


async def test_an_accepted_item_counts_what_was_suggested(editor: Editor):
    page = editor.open(f"{ABOVE}retu‸\n")
    before = (await editor.stats())["characters_accepted"]
    [item] = await items(page, 2, 4, "return")
    page.edit(page.cursor - 4, page.cursor, item["insertText"])
    await editor.ask("workspace/executeCommand", item["command"])
    page.close()
    accepted = (await editor.stats())["characters_accepted"] - before
    assert accepted == len(item["insertText"]) - len("return")


@pytest.mark.parametrize("item", [None, {}, {"text": "x"}, {"range": {"start": 1, "end": 2}, "text": "x"}, "x"])
async def test_an_item_that_cannot_be_understood_is_none(editor: Editor, item: object):
    page = editor.open(f"{ABOVE}ret‸\n")
    asked = {**page.place, "context": {"triggerKind": 2, "selectedCompletionInfo": item}}
    answer = await editor.ask("textDocument/inlineCompletion", asked)
    assert answer["items"][0]["insertText"].startswith("urn")
    page.close()
