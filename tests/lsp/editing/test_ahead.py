"""Work ahead of need: what it is done for, and where nothing is done."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from tests.lsp.wire import ALONE, Editor, Page, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def editor():
    async with started() as editor:
        yield editor


@pytest_asyncio.fixture(loop_scope="module")
async def real():
    async with started(ALONE) as editor:
        yield editor


async def foreseen(page: Page) -> list[str]:
    """What the model was asked to work ahead for in a document, once it is done with that."""
    await page.editor.ask("efim/settled")
    return [what for uri, what in (await page.explain())["foreseen"] if uri == page.uri]


def move(page: Page) -> None:
    page.editor.tell("efim/didMoveCursor", page.place)


async def test_a_document_is_prepared_when_it_is_opened(editor: Editor):
    assert await foreseen(editor.open("x = 1\n‸")) == ["opened"]


async def test_a_place_is_prepared_where_the_cursor_comes_to_rest(editor: Editor):
    page = editor.open("x = 1\ny = é\n‸")
    for page.cursor in (0, 3, 11):
        move(page)
    assert await foreseen(page) == ["x = 1\ny = é"]


async def test_a_text_that_has_changed_meanwhile_is_not_worked_on(editor: Editor):
    page = editor.open("x = 1\n‸")
    await foreseen(page)
    move(page)
    page.type("y")
    assert await foreseen(page) == ["opened"]


async def test_a_document_that_comes_to_the_front_is_prepared_where_its_cursor_was(editor: Editor):
    page = editor.open("x = 1\n‸")
    page.cursor = 3
    move(page)
    await foreseen(page)
    editor.tell("textDocument/didFocus", {"textDocument": {"uri": page.uri}})
    assert await foreseen(page) == ["x =", "x ="]


async def test_what_an_accepted_suggestion_makes_is_prepared_after_it(editor: Editor):
    page = editor.open("# say rest\nx = ‸")
    await foreseen(page)
    assert await page.ghost() == "rest"
    assert (await foreseen(page))[1:] == ["# say rest\nx = rest"]


async def test_of_a_closed_document_nothing_is_prepared(editor: Editor):
    page, other = editor.open("x = 1\n‸"), editor.open("‸")
    move(page)
    page.close()
    await foreseen(other)
    assert page.uri not in [uri for uri, _ in (await other.explain())["foreseen"]]
    editor.tell("efim/didMoveCursor", page.place)
    editor.tell("textDocument/didFocus", {"textDocument": {"uri": page.uri}})
    assert await foreseen(other)


@pytest.mark.parametrize(
    "settings", [{"enabled": False}, {"prefetch_seconds_per_minute": 0}, {"disabled_files": ["*"]}]
)
async def test_nothing_is_prepared_where_completion_or_work_ahead_is_off(editor: Editor, settings: dict[str, Any]):
    editor.tell("workspace/didChangeConfiguration", {"settings": settings})
    page = editor.open("# say rest\n" + "#" * 2000 + "\n‸")
    move(page)
    await page.ghost()
    await editor.ask("efim/settled")
    page.close()
    editor.tell("workspace/didChangeConfiguration", {"settings": {"enabled": True}})
    assert page.uri not in [uri for uri, _ in (await editor.open("‸").explain())["foreseen"]]


async def test_work_that_fails_is_logged_once_and_ends_nothing(editor: Editor):
    page = editor.open("# fail ahead\n‸")
    move(page)
    assert "# fail ahead" not in await foreseen(page)
    await editor.logged("idle work failed")
    assert "# fail" not in editor.stderr


@pytest.mark.parametrize("params", [None, {}, {"textDocument": 3}, {"textDocument": {"uri": 3}}])
async def test_a_malformed_notification_is_ignored(editor: Editor, params: object):
    editor.tell("efim/didMoveCursor", params)
    editor.tell("textDocument/didFocus", params)
    assert await foreseen(editor.open("x‸")) == ["opened"]


async def test_a_key_at_a_place_that_was_prepared_is_answered_at_once(real: Editor):
    page = real.open("\n".join(f"def f{n}(a, b):\n    return a + b * {n}\n" for n in range(60)) + "‸")
    page.cursor = page.text.index("    return a + b * 40")
    move(page)
    await real.ask("efim/settled")
    before = await real.stats()
    assert before["ahead"]["tokens"] > 100 and before["ahead"]["ms"] > 0
    page.type("x")
    await page.ghost()
    stats = await real.stats()
    assert stats["last"]["recomputed"] <= 2
    assert stats["last"]["frame"] == "kept"
