"""Next edits as a user of VS Code sees them: shown, gone to, made, undone and refused, and who takes Tab."""

from __future__ import annotations

import pytest

from tests.editors.conftest import Opening, newest_only
from tests.editors.drivers.servers import ONE_RULE, for_vscode
from tests.editors.drivers.window import Window
from tests.waiting import eventually

pytestmark = newest_only

TEXT = "size = width\nedge = 'größe 🙂', width\nsiz\n" + "pass\n" * 59 + "half = width\n"
# What decorations write: before each, the text that stands on its line.
AFTER = """() => [...document.querySelectorAll(".editor-instance .view-line")].flatMap((line) =>
    [...line.querySelectorAll("span")].map((span) => getComputedStyle(span, "::after").content)
        .filter((content) => content !== "none" && content !== "normal")
        .map((content) => [line.textContent, content].map((each) => each.replaceAll("\\u00a0", " "))))"""
STRUCK = """() => [...document.querySelectorAll(".editor-instance .view-line span")]
    .filter((span) => getComputedStyle(span).textDecorationLine === "line-through" && !span.children.length)
    .map((span) => span.textContent)"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python whose server has one rule."""
    return for_vscode(ONE_RULE, tmp_path_factory.mktemp("python") / "python")


@pytest.fixture
def window(opened: Opening, python: str) -> Window:
    """A window whose server suggests nothing while one types, and whose user has just changed the first `width`."""
    window = opened("widths.py", TEXT, keep_server=True, python=python, suggestions="on request")
    window.see_status("ready")
    window.press("Control+Home", "End", "Control+Shift+ArrowLeft")
    window.type("depth")
    window.see_line("size = depth")
    return window


def drawn(window: Window) -> list[tuple[str, str]]:
    """What is struck through on the screen, and each line with what is written behind a place of it."""
    struck = [("struck", each) for each in window.page.evaluate(STRUCK)]
    return struck + [(line, content.strip('"')) for line, content in window.page.evaluate(AFTER)]


def see(window: Window, *marks: tuple[str, str]) -> None:
    eventually(lambda: sorted(drawn(window)) == sorted(marks), lambda: f"drawn is {drawn(window)}, not {marks}")


SECOND = ("edge = 'größe 🙂', width", "depth")


def make(window: Window) -> None:
    """Go to the edit in the second line, and make it."""
    window.press("Tab")
    eventually(lambda: window.place == "Ln 2, Col 19", lambda: f"the cursor is at {window.place}")
    window.press("Tab")
    window.see_line("edge = 'größe 🙂', depth")


def test_tab_goes_to_it_and_makes_it(window: Window):
    see(window, ("struck", "width"), SECOND)
    window.picture("next-edit")
    window.press("Tab")
    eventually(lambda: window.place == "Ln 2, Col 19", lambda: f"the cursor is at {window.place}")
    see(window, ("struck", "width"), SECOND)
    window.press("Tab")
    window.see_line("edge = 'größe 🙂', depth")
    see(window, ("edge = 'größe 🙂', depth", "Tab: next edit in line 63"))
    window.press("Tab")
    eventually(lambda: window.place.startswith("Ln 63,"), lambda: f"the cursor is at {window.place}")
    see(window, ("struck", "width"), ("half = width", "depth"))


def test_it_is_undone_as_one_step(window: Window):
    see(window, ("struck", "width"), SECOND)
    make(window)
    window.press("Control+z")
    window.see_line("edge = 'größe 🙂', width")
    window.press("Control+Home")
    window.see_line("size = depth")


def test_escape_refuses_it_for_good(window: Window):
    see(window, ("struck", "width"), SECOND)
    window.press("Escape")
    see(window)
    window.press("ArrowDown")
    see(window, ("edge = 'größe 🙂', width", "Tab: next edit in line 63"))


def test_tab_and_escape_belong_to_the_list_while_it_is_open(window: Window):
    see(window, ("struck", "width"), SECOND)
    window.press("Control+Home", "ArrowDown", "ArrowDown", "End")
    see(window, ("struck", "width"), SECOND)
    window.press("Control+Space")
    window.menu.first.wait_for()
    window.press("Escape")
    window.menu.first.wait_for(state="hidden")
    see(window, ("struck", "width"), SECOND)
    window.press("Control+Space")
    window.menu.first.wait_for()
    window.press("Tab")
    window.see_line("size")


def test_tab_indents_where_it_moves_no_focus_and_nothing_is_shown(window: Window):
    window.press("Escape")
    see(window)
    window.press("Control+Home", "End")
    window.command("efim-ls: Snooze for 5 Minutes")
    window.press("Enter")
    see(window)
    window.press("Tab")
    window.see_line("    ")
    window.command("efim-ls: End Snooze")


def test_the_menu_turns_it_off_and_on(window: Window):
    see(window, ("struck", "width"), SECOND)
    window.open_menu()
    window.pick("Turn next edits off")
    see(window)
    window.open_menu()
    window.pick("Turn next edits on")
    see(window, ("struck", "width"), SECOND)


def test_the_statistics_count_it(window: Window):
    see(window, ("struck", "width"), SECOND)
    make(window)
    window.command("efim-ls: Show Statistics")
    page = window.page.frame_locator("iframe.webview.ready").frame_locator("iframe#active-frame")
    page.locator("td", has_text="next edits accepted").wait_for()
