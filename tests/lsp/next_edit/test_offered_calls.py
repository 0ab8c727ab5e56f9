"""Calls in other files that follow a definition, offered by the real process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lsp.wire import Editor, Page
from tests.lsp.workspace.test_workspace_files import changed, working_in

SHELF = "def load(path, mode):\n    return path\n"
APP = "from shelf import load\n\nprint(load('größe 🙂', 1), 2)\n"
MAIN = "from shelf import load\n\nload('b', 2)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("shelf", SHELF), ("app", APP), ("main", MAIN)):
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    return tmp_path


def defined(editor: Editor, folder: Path) -> Page:
    """The page of the definition, which has just lost a parameter."""
    page = editor.open(SHELF.replace(")", "‸)", 1), (folder / "shelf.py").as_uri())
    page.edit(SHELF.index(", mode"), SHELF.index(")"), "")
    return page


async def offered(page: Page, other_files: bool = True) -> dict[str, Any] | None:
    params = {"textDocument": {"uri": page.uri, "version": page.version}, "position": page.position(page.cursor)}
    params |= {"otherFiles": True} if other_files else {}
    answer = (await page.editor.ask("textDocument/copilotInlineEdit", params))["edits"]
    return answer[0] if answer else None


def go_to(editor: Editor, path: Path) -> Page:
    """The page of a file with the cursor in the line of its call."""
    text = path.read_text("utf-8")
    return editor.open(text[: text.index("load(")] + "‸" + text[text.index("load(") :], path.as_uri())


async def test_a_client_that_asks_for_one_document_is_told_of_no_other(folder: Path) -> None:
    async with working_in(folder) as editor:
        page = defined(editor, folder)
        assert await offered(page)
        assert await offered(page, other_files=False) is None
        app = go_to(editor, folder / "app.py")
        assert await offered(app, other_files=False), "the call is in this document"


async def test_a_name_is_whole_once_the_user_has_left_insert_mode(tmp_path: Path) -> None:
    async with working_in(tmp_path) as editor:
        page = editor.open("‸width = 1\nprint(width)\n", (tmp_path / "a.py").as_uri())
        page.edit(0, 5, "")
        for key in "breadth":
            page.type(key)
        page.cursor -= 1  # as Vim's cursor moves left
        where = {"textDocument": {"uri": page.uri, "version": page.version}, "position": page.position(page.cursor)}
        answers = [
            (await editor.ask("textDocument/copilotInlineEdit", where | told))["edits"]
            for told in ({}, {"isTyping": True}, {"isTyping": False}, {"isTyping": "no"})
        ]
        assert [bool(each) for each in answers] == [False, False, True, False]
        assert answers[2][0]["text"] == "breadth" and answers[2][0]["range"]["start"] == {"line": 1, "character": 6}


async def test_the_calls_of_one_file_after_the_other_are_offered(folder: Path) -> None:
    async with working_in(folder) as editor:
        page = defined(editor, folder)
        edit = await offered(page)
        assert edit and edit["textDocument"] == {"uri": (folder / "app.py").as_uri(), "version": None}
        assert edit["text"] == ""
        assert edit["range"] == {"start": {"line": 2, "character": 21}, "end": {"line": 2, "character": 24}}
        told = (await page.explain())["next_edit"]
        assert (told["rule"], told["uri"], told["because"][0]["line"]) == (
            "signature",
            edit["textDocument"]["uri"],
            1,
        )
        app = go_to(editor, folder / "app.py")
        again = await offered(app)
        assert again and again["textDocument"]["version"] == 1 and again["command"] == edit["command"]
        at = app.text.index(", 1")
        app.edit(at, at + len(", 1"), again["text"])
        await editor.ask("workspace/executeCommand", {k: edit["command"][k] for k in ("command", "arguments")})
        assert (await editor.stats())["next_edits"]["accepted"] == 1
        edit = await offered(app)
        assert edit and edit["textDocument"]["uri"] == (folder / "main.py").as_uri()
        assert "load" not in editor.stderr


async def test_what_a_file_is_now_on_disk_counts(folder: Path) -> None:
    async with working_in(folder) as editor:
        (folder / "app.py").write_text("from shelf import load\n", "utf-8")
        edit = await offered(defined(editor, folder))
        assert edit and edit["textDocument"]["uri"] == (folder / "main.py").as_uri()


async def test_a_refused_call_is_not_offered_again(folder: Path) -> None:
    async with working_in(folder) as editor:
        page = defined(editor, folder)
        edit = await offered(page)
        assert edit
        refuse = {"command": "efim-ls.refuseNextEdit", "arguments": edit["command"]["arguments"]}
        await editor.ask("workspace/executeCommand", refuse)
        edit = await offered(page)
        assert edit and edit["textDocument"]["uri"] == (folder / "main.py").as_uri()


@pytest.mark.parametrize(
    "settings",
    [{"next_edit": False}, {"disabled_files": ["app.py", "main.py"]}, {"private_files": ["app.py", "main.py"]}],
)
async def test_nothing_is_offered_in_what_is_off(folder: Path, settings: dict[str, Any]) -> None:
    async with working_in(folder, **settings) as editor:
        assert await offered(defined(editor, folder)) is None


async def test_nothing_is_offered_outside_of_the_workspace_nor_in_what_git_ignores(folder: Path) -> None:
    (folder / ".gitignore").write_text("app.py\n", "utf-8")
    (folder / ".git").mkdir()
    (inside := folder / "inside").mkdir()
    async with working_in(folder) as editor:
        edit = await offered(defined(editor, folder))
        assert edit and edit["textDocument"]["uri"] == (folder / "main.py").as_uri()
    async with working_in(inside) as editor:
        assert await offered(defined(editor, folder)) is None


async def test_a_call_that_is_written_later_is_found(folder: Path) -> None:
    async with working_in(folder, disabled_files=["main.py", "app.py"]) as editor:
        page = defined(editor, folder)
        assert await offered(page) is None
        (folder / "new.py").write_text(MAIN, "utf-8")
        changed(editor, folder / "new.py", kind=1)
        await editor.ask("efim/settled")
        edit = await offered(page)
        assert edit and edit["textDocument"]["uri"] == (folder / "new.py").as_uri()
