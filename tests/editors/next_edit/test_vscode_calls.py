"""A call in another file that follows a definition, as a user of VS Code sees it."""

from __future__ import annotations

import pytest

from tests.editors.conftest import Opening, newest_only
from tests.editors.drivers.window import Window
from tests.editors.next_edit.test_vscode_next_edits import see
from tests.waiting import eventually

pytestmark = newest_only

SHELF = "def load(path, mode):\n    return path\n"
APP = "from shelf import load\n\nload('größe 🙂', 1)\n"


@pytest.fixture
def window(opened: Opening) -> Window:
    """A window whose user is about to remove a parameter of a definition, which the other file calls."""
    window = opened("shelf.py", SHELF, {"app.py": APP}, suggestions="on request")
    window.see_status("ready")
    return window


def test_its_file_is_opened_and_the_call_made(window: Window) -> None:
    window.press("Control+Home", "End", "ArrowLeft", "ArrowLeft")
    window.press("Control+Shift+ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowLeft", "Delete")
    window.see_line("def load(path):")
    see(window, ("def load(path):", "Tab: next edit in app.py, line 3"))
    window.press("Tab")
    window.page.locator(".tab.active", has_text="app.py").wait_for()
    see(window, ("struck", ",\xa0"), ("struck", "1"))
    eventually(lambda: window.place.startswith("Ln 3,"), lambda: f"the cursor is at {window.place}")
    window.press("Tab")
    window.see_line("load('größe 🙂')")
    window.press("Control+z")
    window.see_line("load('größe 🙂', 1)")
