"""A call in another file that follows a definition, as a user of Neovim sees it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.editors.conftest import need
from tests.editors.drivers.neovim import RECORDER, SETUP, Neovim, neovim, text_of
from tests.editors.fetching.neovim import NATIVE, OLDER
from tests.editors.fetching.part import Part

KEYS = 'keys = { next_edit = "<Tab>", refuse_edit = "<Esc>" }'
SHELF = "def load(path, mode):\n    return path\n"
APP = "from shelf import load\n\nload('größe 🙂', 1)\n"


@pytest.fixture(params=(NATIVE, OLDER), ids=lambda part: part.key)
def editor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neovim]:
    """A Neovim whose user has just removed a parameter of a definition, which the other file calls."""
    part: Part = request.param
    folder = tmp_path_factory.mktemp(part.key)
    (folder / ".git").mkdir()
    (folder / "app.py").write_text(APP, "utf-8")
    (folder / "shelf.py").write_text(SHELF, "utf-8")
    settings = 'settings = { suggestions = "on request" }'
    init = RECORDER + SETUP.replace("OPTIONS", f"{KEYS}, {settings}")
    with neovim(need(part), folder, init) as editor:
        editor.edit("shelf.py", SHELF)
        editor.ready()
        editor.request("efim/settled")
        editor.type("gg", "f,", "dt)")
        editor.line("def load(path):")
        yield editor


def hints(editor: Neovim) -> list[str]:
    namespace = editor.api.api.get_namespaces()["efim_ls.next_edit"]
    marks = editor.api.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})
    return [text_of(mark[3].get("virt_text", [])) for mark in marks]


def struck(editor: Neovim) -> list[tuple[int, int, int]]:
    """Row and columns of what is struck through."""
    namespace = editor.api.api.get_namespaces()["efim_ls.next_edit"]
    marks = editor.api.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})
    return [(row, col, more["end_col"]) for _, row, col, more in marks if "end_col" in more]


def test_its_file_is_opened_and_the_call_made(editor: Neovim) -> None:
    editor.until("a hint", lambda: hints(editor) == ["next edit: app.py: 3"])
    editor.type("<Tab>")
    editor.until("the other file", lambda: editor.api.current.buffer.name.endswith("app.py"))
    start = len("load('größe 🙂'".encode())
    editor.until("the edit", lambda: struck(editor) == [(2, start, start + len(", 1"))])
    assert editor.api.current.window.cursor[0] == 3
    editor.type("<Tab>")
    editor.line("load('größe 🙂')")
    editor.type("u")
    editor.line("load('größe 🙂', 1)")


def test_where_a_buffer_may_not_be_left_the_file_gets_a_window(editor: Neovim) -> None:
    editor.api.command("set nohidden")
    editor.until("a hint", lambda: hints(editor) == ["next edit: app.py: 3"])
    editor.type("<Tab>")
    editor.until("the other file", lambda: editor.api.current.buffer.name.endswith("app.py"))
    assert len(editor.api.windows) == 2


def test_it_is_refused_where_it_is_only_told_of(editor: Neovim) -> None:
    editor.until("a hint", lambda: hints(editor) == ["next edit: app.py: 3"])
    editor.type("<Esc>")
    editor.until("nothing", lambda: hints(editor) == [])
    editor.type("j")
    asked = editor.request("textDocument/copilotInlineEdit", position={"line": 1, "character": 0}, otherFiles=True)
    assert asked == {"edits": []}
