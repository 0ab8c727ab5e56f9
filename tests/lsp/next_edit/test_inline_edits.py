"""Next edits through the real process, in the messages that clients of Copilot's server send."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from tests.lsp.one_rule import RULE
from tests.lsp.wire import GHOST_TEXT, Editor, Page, launched, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "area = width\nedge = 'größe 🙂', width\nhalf = width‸\n"
ACCEPT, REFUSE = "efim-ls.acceptNextEdit", "efim-ls.refuseNextEdit"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started() as editor:
        yield editor


def changed(editor: Editor, text: str = TEXT) -> Page:
    """A page in which the first `width` has just become `depth`."""
    page = editor.open(text)
    at = page.text.index("width")
    page.edit(at, at + 5, "depth")
    return page


async def offered(page: Page, version: int | None = None) -> dict[str, Any] | None:
    name = {"uri": page.uri, "version": page.version if version is None else version}
    params = {"textDocument": name, "position": page.position(page.cursor), "context": {"triggerKind": 2}}
    answer = await page.editor.ask("textDocument/copilotInlineEdit", params)
    assert list(answer) == ["edits"] and len(answer["edits"]) <= 1
    return answer["edits"][0] if answer["edits"] else None


async def run(editor: Editor, command: str, *arguments: object) -> None:
    await editor.ask("workspace/executeCommand", {"command": command, "arguments": list(arguments)})


async def counted(editor: Editor) -> dict[str, int]:
    return (await editor.stats())["next_edits"]


def make(page: Page, edit: dict[str, Any]) -> None:
    at = page.text.index("width")
    assert edit["range"] == {"start": page.position(at), "end": page.position(at + 5)}
    page.edit(at, at + 5, edit["text"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_an_edit_is_offered_in_the_clients_units(encoding: str):
    async with launched() as editor:
        await editor.start(GHOST_TEXT | {"general": {"positionEncodings": [encoding]}})
        page = changed(editor)
        edit = await offered(page)
        assert edit and edit.pop("command")["command"] == ACCEPT
        start = page.text.index("width")
        assert edit == {
            "text": "depth",
            "range": {"start": page.position(start), "end": page.position(start + 5)},
            "textDocument": {"uri": page.uri, "version": page.version},
        }


async def test_an_edit_is_shown_made_and_kept(editor: Editor):
    before, page = await counted(editor), changed(editor)
    edit = await offered(page)
    assert edit
    editor.tell("textDocument/didShowInlineEdit", {"item": {"command": {"arguments": edit["command"]["arguments"]}}})
    assert (await counted(editor))["shown"] == before["shown"] + 1
    make(page, edit)
    await run(editor, edit["command"]["command"], *edit["command"]["arguments"])
    follower = await offered(page)
    assert follower and follower["range"]["start"]["line"] == 2
    page.close()
    after = await counted(editor)
    assert {name: count - before[name] for name, count in after.items()} == {"shown": 1, "accepted": 1, "kept": 1}


async def test_an_edit_that_is_undone_is_not_kept(editor: Editor):
    before, page = await counted(editor), changed(editor)
    edit = await offered(page)
    assert edit
    at = page.text.index("width")
    make(page, edit)
    await run(editor, edit["command"]["command"], *edit["command"]["arguments"])
    page.edit(at, at + 5, "width")
    page.close()
    after = await counted(editor)
    assert (after["accepted"] - before["accepted"], after["kept"] - before["kept"]) == (1, 0)


async def test_a_refused_edit_is_not_offered_again(editor: Editor):
    page = changed(editor)
    for line in (1, 2):
        edit = await offered(page)
        assert edit and edit["range"]["start"]["line"] == line
        await run(editor, REFUSE, *edit["command"]["arguments"])
    assert await offered(page) is None
    page.close()


async def test_nothing_is_offered_for_another_version(editor: Editor):
    page = changed(editor)
    assert await offered(page, page.version - 1) is None
    assert await editor.ask("textDocument/copilotInlineEdit", page.place), "a version may be left out"
    page.close()


async def test_where_it_is_off_there_is_an_empty_list(editor: Editor):
    page = changed(editor)
    for settings in ({"next_edit": False}, {"disabled_languages": ["python"]}, {"enabled": False}):
        editor.tell("workspace/didChangeConfiguration", {"settings": settings})
        assert await offered(page) is None
    editor.tell("workspace/didChangeConfiguration", {"settings": {}})
    assert await offered(page)
    unknown = {**page.place, "textDocument": {"uri": "file:///nowhere.py"}}
    assert await editor.ask("textDocument/copilotInlineEdit", unknown) == {"edits": []}
    page.close()


async def test_a_rule_that_fails_is_logged_without_the_text(editor: Editor):
    page = editor.open("secret = width\nother = width‸\n")
    at = page.text.index("width")
    page.edit(at, at + 5, "crash")
    assert await offered(page) is None
    await editor.logged("proposing a next edit failed")
    assert "crash" not in editor.stderr and "width" not in editor.stderr
    page.close()


async def test_the_explanation_says_which_rule_and_from_which_edits(editor: Editor):
    page = changed(editor)
    explained = (await page.explain())["next_edit"]
    assert (explained["rule"], explained["line"], explained["removed"]) == (RULE, 2, "width")
    assert explained["because"] == [{"uri": page.uri, "line": 1, "removed": "wid", "added": "dep"}]
    fresh = editor.open("‸")
    assert (await fresh.explain())["next_edit"] is None
    page.close()
    fresh.close()


@pytest.mark.parametrize("params", [{}, {"textDocument": {"uri": "file:///a.py"}}, None, []])
async def test_malformed_questions_are_refused(editor: Editor, params: object):
    with pytest.raises(Exception, match="expected|Invalid"):
        await editor.ask("textDocument/copilotInlineEdit", params)
    for command in (ACCEPT, REFUSE):
        with pytest.raises(Exception, match="expected"):
            await run(editor, command, 7)


async def test_a_client_may_say_that_no_document_is_looked_at(editor: Editor):
    warned = editor.stderr.count("malformed")
    editor.tell("textDocument/didFocus", {})
    await editor.stats()
    assert editor.stderr.count("malformed") == warned
