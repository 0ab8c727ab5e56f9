"""Names that an editor's other servers list, sent to a real process, which has no model for the language."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from tests.lsp.improvements import CAN_BE_TOLD, improvements
from tests.lsp.wire import ALONE, Editor, Page, started
from tests.waiting import HANG

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = ("Connect", "Close", "Timeout")
CODE = "package main\n\nfunc main() {\n\tclient := dial()\n\tclient.‸\n}\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(ALONE) as found:
        yield found


@pytest.fixture(autouse=True)
def _fresh(editor: Editor):  # pyright: ignore[reportUnusedFunction]
    yield
    editor.close_pages()


def tell(page: Page, *names: str, **more: Any) -> None:
    """Tell the server which names another one lists at the cursor."""
    place = {"textDocument": {"uri": page.uri, "version": page.version}, "position": page.position(page.cursor)}
    items = [{"label": name, "kind": 2} for name in names]
    page.editor.tell("efim/names", {**place, "server": "gopls", "items": items, **more})


def behind_a_dot(editor: Editor, language: str = "swift") -> Page:
    return editor.open(CODE, language=language)


async def test_the_only_name_that_begins_so_is_suggested_and_explained(editor: Editor):
    page = behind_a_dot(editor, "go")
    tell(page, *NAMES)
    page.type("T")
    assert await page.ghost() == "imeout"
    [word] = (await page.explain())["suggestion"]["words"]
    assert word["source"] == "listed by gopls"
    page.type("im")
    assert await page.ghost() == "eout", "what is typed through stays"


async def test_nothing_is_said_where_several_begin_so_or_none(editor: Editor):
    page = behind_a_dot(editor, "go")
    tell(page, *NAMES)
    for typed in ("C", "x"):
        page.type(typed)
        assert await page.ghost() is None


async def test_names_count_where_their_word_begins_and_nowhere_else(editor: Editor):
    page = behind_a_dot(editor, "go")
    tell(page, *NAMES)
    page.type("Close()\n\tother.T")
    assert await page.ghost() is None


async def test_names_for_a_text_that_has_changed_in_front_of_them_are_ignored(editor: Editor):
    page = behind_a_dot(editor, "go")
    old = {"uri": page.uri, "version": page.version}
    page.edit(page.cursor - len("client."), page.cursor, "socket.")
    tell(page, *NAMES, textDocument=old)
    page.type("T")
    assert await page.ghost() is None


async def test_a_list_that_comes_late_asks_again_where_nothing_is_shown():
    async with started(ALONE, CAN_BE_TOLD) as editor:
        told = improvements(editor)
        page = behind_a_dot(editor, "go")
        start = page.position(page.cursor)
        page.type("T")
        assert await page.ghost() is None
        tell(page, *NAMES, position=start)
        async with asyncio.timeout(HANG):
            assert await told.get() == page.uri
        assert await page.ghost() == "imeout"
        tell(page, *NAMES, position=start)
        assert await page.ghost() == "imeout"
        assert told.empty(), "what is shown is among them"


LIES = {
    "a million names": {"items": [{"label": f"name{number}"} for number in range(20_000)]},
    "names with line ends": {"items": [{"label": "Time\nout"}, {"label": "Ti\u2028me"}, {"label": "\0"}]},
    "no names": {"items": []},
    "items that are none": {"items": [None, 1, "Timeout", ["Timeout"], {"label": 3}, {}]},
    "another version": {"textDocument": {"uri": "PAGE", "version": 99}},
    "another place": {"position": {"line": 0, "character": 3}},
    "a place beyond the end": {"position": {"line": 10**6, "character": 10**9}},
    "another document": {"textDocument": {"uri": "file:///elsewhere.go", "version": 1}},
    "a server without a name": {"server": None, "items": [{"label": "nothing here"}]},
    "no message at all": {"items": "Timeout"},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_client_that_lies_changes_nothing_but_its_names(editor: Editor, lie: str):
    page = behind_a_dot(editor, "go")
    told = dict(LIES[lie])
    if told.get("textDocument", {}).get("uri") == "PAGE":
        told["textDocument"] = {"uri": page.uri, "version": 99}
    tell(page, *NAMES, **told)
    page.type("T")
    assert await page.ghost() is None
    page.edit(page.cursor - 1, page.cursor, "")
    tell(page, *NAMES)
    page.type("T")
    assert await page.ghost() == "imeout", "the next list is taken"
