"""An import that the workspace tells of, offered by the real process once a name was typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lsp.wire import Editor, Page
from tests.lsp.workspace.test_workspace_files import working_in

AREA = "class Square:\n    def __init__(self, side):\n        self.side = side\n"
TYPED = "import os\n\n\ndef draw():\n    return ‸\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (package := tmp_path / "shapes").mkdir()
    for name, text in (("__init__", ""), ("area", AREA), ("draw", "import os\n")):
        (package / f"{name}.py").write_text(text, "utf-8")
    return tmp_path


def typed(editor: Editor, folder: Path) -> Page:
    page = editor.open(TYPED, (folder / "shapes" / "draw.py").as_uri())
    page.type("Square(2)")
    return page


async def offered(page: Page) -> list[dict[str, Any]]:
    params = {"textDocument": {"uri": page.uri, "version": page.version}, "position": page.position(page.cursor)}
    return (await page.editor.ask("textDocument/copilotInlineEdit", params))["edits"]


async def test_a_class_of_the_workspace_is_imported(folder: Path) -> None:
    async with working_in(folder) as editor:
        page = typed(editor, folder)
        (edit,) = await offered(page)
        assert edit["text"] == "\n\nfrom shapes.area import Square"
        assert edit["range"]["start"] == {"line": 0, "character": len("import os")}
        told = (await page.explain())["next_edit"]
        assert (told["rule"], told["because"][0]["added"]) == ("import", "Square(2)")
        at = len("import os")
        page.edit(at, at, edit["text"])
        assert await offered(page) == []


async def test_the_way_of_other_files_is_that_of_the_import(folder: Path) -> None:
    (folder / "shapes" / "other.py").write_text("from .area import Square\n", "utf-8")
    async with working_in(folder) as editor:
        (edit,) = await offered(typed(editor, folder))
        assert edit["text"] == "\n\nfrom .area import Square"


@pytest.mark.parametrize("settings", [{"next_edit": False}, {"disabled_files": ["area.py"]}, {"other_files": "off"}])
async def test_nothing_is_offered_of_what_is_off(folder: Path, settings: dict[str, Any]) -> None:
    async with working_in(folder, **settings) as editor:
        assert await offered(typed(editor, folder)) == []


async def test_a_name_that_two_files_define_is_nobodys(folder: Path) -> None:
    (folder / "shapes" / "other.py").write_text(AREA, "utf-8")
    async with working_in(folder) as editor:
        assert await offered(typed(editor, folder)) == []
